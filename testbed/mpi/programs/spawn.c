/* spawn: what a job cannot do is an MPI error: it starts no further ranks and
   publishes nothing to other jobs. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, spawned, published;
    MPI_Comm other;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    spawned = MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other, MPI_ERRCODES_IGNORE);
    published = MPI_Publish_name("service", MPI_INFO_NULL, "port");
    printf("spawned %d published %d\n", spawned == MPI_SUCCESS, published == MPI_SUCCESS);
    MPI_Finalize();
    return 0;
}
