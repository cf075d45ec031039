/* Every rank says who it is, how many there are, and with how many it shares
   memory: a program that was not wired up says "rank 0 of 1". */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, shared, len;
    char host[MPI_MAX_PROCESSOR_NAME];
    MPI_Comm node;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &len);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &shared);
    printf("rank %d of %d on %s shared %d\n", rank, size, host, shared);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
