/* alltoallv TIMES: every rank sends every other another number of numbers, so
   many times, and checks what came. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 65536

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 10, rank, n, wrong = 0, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int *out = malloc(n * MOST * sizeof(int)), *in = malloc(n * MOST * sizeof(int));
    int *sent = malloc(n * sizeof(int)), *got = malloc(n * sizeof(int)), *at = malloc(n * sizeof(int));
    for (int t = 0; t < times; t++) {
        for (int i = 0; i < n; i++) {
            at[i] = i * MOST;
            sent[i] = 1 + (rank * 7 + i * 13 + t * 10007) % MOST;
            got[i] = 1 + (i * 7 + rank * 13 + t * 10007) % MOST;
            for (int k = 0; k < sent[i]; k++)
                out[at[i] + k] = rank * n + i + k;
        }
        MPI_Alltoallv(out, sent, at, MPI_INT, in, got, at, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < got[i]; k++)
                wrong += in[at[i] + k] != i * n + rank + k;
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("alltoallv of %d: %d wrong\n", n, all);
    MPI_Finalize();
    return all != 0;
}
