/* late SECONDS [WHAT]: rank 0 computes for that long and only then comes to
   MPI_Finalize, where all others are. Before, by WHAT, all have spoken to all
   ("all", the default), a communicator was split ("split"), rank 0 has spoken
   to the last ("pair"), or nobody has spoken ("mute"). */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "all";
    int rank, size;
    double end;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "all")) {
        int *in = calloc(2 * size, sizeof *in);
        MPI_Alltoall(in, 1, MPI_INT, in + size, 1, MPI_INT, MPI_COMM_WORLD);
    } else if (!strcmp(what, "split")) {
        MPI_Comm node;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    } else if (!strcmp(what, "pair")) {
        if (rank == 0)
            MPI_Send(&rank, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD);
        if (rank == size - 1)
            MPI_Recv(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    end = MPI_Wtime() + (argc > 1 ? atof(argv[1]) : 2);
    if (rank == 0)
        while (MPI_Wtime() < end)
            ;
    MPI_Finalize();
    return 0;
}
