/* ring LAPS BYTES: a token goes around, and every rank adds one to it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size;
    long laps = argc > 1 ? atol(argv[1]) : 100;
    long bytes = argc > 2 ? atol(argv[2]) : 8;
    long token = 0;
    char *buf;

    if (bytes < (long)sizeof token)
        bytes = sizeof token;
    buf = calloc(1, bytes);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long lap = 0; lap < laps; lap++) {
        if (rank > 0 || lap > 0)
            MPI_Recv(buf, bytes, MPI_BYTE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memcpy(&token, buf, sizeof token);
        token++;
        memcpy(buf, &token, sizeof token);
        MPI_Send(buf, bytes, MPI_BYTE, (rank + 1) % size, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        MPI_Recv(buf, bytes, MPI_BYTE, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memcpy(&token, buf, sizeof token);
        printf("ring of %d: token %ld, want %ld\n", size, token, laps * size);
    }
    MPI_Finalize();
    return rank == 0 && token != laps * size;
}
