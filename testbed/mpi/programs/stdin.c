/* Every rank counts the bytes of its standard input. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank;
    long n = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (getchar() != EOF)
        n++;
    printf("rank %d read %ld bytes\n", rank, n);
    MPI_Finalize();
    return 0;
}
