/* Straight from MPI_Init to MPI_Finalize, with a communicator on the way that
   makes the ranks open connections which are then closed while others already
   wait in the last barrier. */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Comm node;

    MPI_Init(&argc, &argv);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Finalize();
    return 0;
}
