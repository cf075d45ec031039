/* steps STEP [stubborn] [children]: goes as far as STEP, says "at STEP" from
   every rank that stops there, and stays.

   start     before MPI_Init
   init      rank 0 stays before MPI_Init, the others are in it
   sleep     after MPI_Init, asleep
   receive   after MPI_Init, in a receive that nobody sends to
   finalize  rank 0 is asleep, the others are in MPI_Finalize
   after     after MPI_Finalize, asleep
   until     until the file FILCH_TEST_FILE is there, in turns asleep and in
             collectives; then rank 1 ends with 7 after MPI_Finalize

   stubborn: SIGTERM is ignored. children: every rank has first started a child
   in its own process group and one in its own session. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *step)
{
    printf("at %s\n", step);
    fflush(stdout);
}

static void stay(void)
{
    for (;;)
        sleep(600);
}

static void children(void)
{
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            if (i == 0)
                setpgid(0, 0);
            else
                setsid();
            stay();
        }
}

int main(int argc, char **argv)
{
    const char *step = argc > 1 ? argv[1] : "start";
    const char *mine = getenv(getenv("FILCH_RANK") ? "FILCH_RANK" : "PMI_RANK");
    int rank = mine ? atoi(mine) : 0;

    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "stubborn"))
            signal(SIGTERM, SIG_IGN);
        if (!strcmp(argv[i], "children"))
            children();
    }
    if (!strcmp(step, "start")) {
        say(step);
        stay();
    }
    if (!strcmp(step, "init")) {
        say(step);
        if (rank == 0)
            stay();
    }
    MPI_Init(&argc, &argv);
    if (!strcmp(step, "sleep")) {
        say(step);
        stay();
    }
    if (!strcmp(step, "receive")) {
        int x;
        say(step);
        MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (!strcmp(step, "until")) {
        const char *file = getenv("FILCH_TEST_FILE");
        int there = 0;
        say(step);
        while (!there) {
            usleep(20000);
            if (rank == 0)
                there = access(file, F_OK) == 0;
            MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
        MPI_Finalize();
        return rank == 1 ? 7 : 0;
    }
    if (!strcmp(step, "finalize")) {
        say(step);
        if (rank == 0)
            stay();
    }
    MPI_Finalize();
    say(step);
    stay();
}
