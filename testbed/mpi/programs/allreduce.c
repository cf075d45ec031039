/* allreduce DOUBLES TIMES: sums vectors over all ranks and checks every value. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, bad = 0;
    int n = argc > 1 ? atoi(argv[1]) : 4096;
    int times = argc > 2 ? atoi(argv[2]) : 5;
    double *in = malloc(n * sizeof *in), *out = malloc(n * sizeof *out);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < n; i++)
        in[i] = rank + i;
    for (int k = 0; k < times; k++)
        MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        bad += out[i] != size * (size - 1) / 2 + (double)size * i;
    if (rank == 0)
        printf("allreduce of %d: %d of %d wrong\n", size, bad, n);
    MPI_Finalize();
    return bad != 0;
}
