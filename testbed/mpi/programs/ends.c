/* ends MODE [CODE [talk|meet]]: rank 1 ends in the way that MODE names, the others
   wait for it where they can. With talk rank 0 and rank 1 talk to each other until
   then, and rank 0 goes on to, so that it loses its peer; with meet rank 1 is gone
   when rank 0 speaks to it for the first time.

   finalized     with CODE, after MPI_Finalize
   unfinalized   with CODE, without it
   zero          with 0, without it
   segv, kill, abrt  by that signal
   unstarted     with CODE, before MPI_Init
   unstarted-zero  with 0, before MPI_Init
   abort         by MPI_Abort with CODE
   garbage       after a line that is not PMI */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char many[1 << 22];

/* talk passes a number to the other rank and back, so many times. */
static void talk(int rank, long times)
{
    int there = rank, back;
    for (; times > 0; times--)
        MPI_Sendrecv(&there, 1, MPI_INT, 1 - rank, 0, &back, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "finalized";
    int code = argc > 2 ? atoi(argv[2]) : 7;
    const char *mine = getenv(getenv("FILCH_RANK") ? "FILCH_RANK" : "PMI_RANK");
    int talks = argc > 3 && !strcmp(argv[3], "talk"), meets = argc > 3 && !strcmp(argv[3], "meet");
    int rank, chosen = mine && atoi(mine) == 1;

    if (chosen && !strcmp(mode, "unstarted"))
        exit(code);
    if (chosen && !strcmp(mode, "unstarted-zero"))
        exit(0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!meets)
        MPI_Barrier(MPI_COMM_WORLD); /* nobody fails in MPI_Init for what rank 1 does */
    if (talks && rank < 2)
        talk(rank, rank ? 100 : 1L << 40);
    if (rank == 1) {
        if (!strcmp(mode, "unfinalized"))
            _exit(code);
        if (!strcmp(mode, "zero"))
            _exit(0);
        if (!strcmp(mode, "segv"))
            raise(SIGSEGV);
        if (!strcmp(mode, "kill"))
            raise(SIGKILL);
        if (!strcmp(mode, "abrt"))
            abort();
        if (!strcmp(mode, "abort"))
            MPI_Abort(MPI_COMM_WORLD, code);
        if (!strcmp(mode, "garbage")) {
            if (write(atoi(getenv("PMI_FD")), "garbage\n", 8) != 8)
                return 9;
            sleep(600);
        }
    }
    while (meets)
        MPI_Bcast(many, sizeof many, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (strcmp(mode, "finalized"))
        sleep(600);
    MPI_Finalize();
    return rank == 1 ? code : 0;
}
