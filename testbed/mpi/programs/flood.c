/* flood MEGABYTES: rank 0 writes that much, in lines of 64 bytes that count
   themselves. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    long lines = (argc > 1 ? atol(argv[1]) : 1) * (1L << 14);
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        for (long i = 0; i < lines; i++)
            printf("%063ld\n", i);
    MPI_Finalize();
    return 0;
}
