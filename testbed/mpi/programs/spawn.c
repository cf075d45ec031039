/* spawn: ranks that spawn ranks, and talk to them. The first word is the mode:
 * one N [key=value...]  N ranks, with an MPI_Info
 * two N M               N and M ranks, as two programs with different arguments
 * deep N                one rank spawns one, which spawns N
 * again N               N spawns of one rank, one after the other, each disconnected
 * die CODE              the new rank ends before MPI_Init
 * abort CODE            the new rank calls MPI_Abort
 * hold                  the new ranks, and then all, wait for ever
 * names                 publish, look up, connect, accept, unpublish within one job
 * universe              prints MPI_UNIVERSE_SIZE, and spawns nothing
 * nothing               a program that is not there */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char **args;

static void fail(const char *what)
{
    fprintf(stderr, "spawn: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

/* talk sums the ranks of both sides, over a merged communicator, and sends a
   token from side to side. */
static void talk(MPI_Comm other, int high)
{
    MPI_Comm all;
    int rank, size, remote, sum = 0, token = 0;

    MPI_Comm_remote_size(other, &remote);
    MPI_Comm_rank(other, &rank);
    if (rank == 0) {
        int mine = high ? 100 : 200;
        MPI_Sendrecv(&mine, 1, MPI_INT, 0, 7, &token, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
        if (token != 300 - mine)
            fail("a wrong token");
    }
    MPI_Intercomm_merge(other, high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    if (sum != size * (size - 1) / 2)
        fail("a wrong sum");
    if (rank == 0)
        printf("merged %d, remote %d, sum right\n", size, remote);
    fflush(stdout);
    MPI_Comm_free(&all);
}

static MPI_Comm start(const char *program, char **argv, int n, MPI_Info info, MPI_Comm from)
{
    MPI_Comm other = MPI_COMM_NULL;
    int rc = MPI_Comm_spawn(program, argv, n, info, 0, from, &other, MPI_ERRCODES_IGNORE);
    if (rc != MPI_SUCCESS) {
        int class, rank;
        MPI_Error_class(rc, &class);
        MPI_Comm_rank(from, &rank);
        if (rank == 0)
            printf("refused: %s\n", class == MPI_ERR_SPAWN ? "MPI_ERR_SPAWN" : "another error");
        fflush(stdout);
        return MPI_COMM_NULL;
    }
    return other;
}

static void names(int rank, int size)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm other, mine;
    MPI_Comm_split(MPI_COMM_WORLD, rank >= size / 2, rank, &mine);
    if (rank >= size / 2) {
        if (rank == size / 2) {
            MPI_Open_port(MPI_INFO_NULL, port);
            MPI_Publish_name("ocean", MPI_INFO_NULL, port);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, mine, &other);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Lookup_name("ocean", MPI_INFO_NULL, port);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, mine, &other);
    }
    talk(other, rank >= size / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size / 2) {
        int rc = MPI_Unpublish_name("ocean", MPI_INFO_NULL, port);
        printf("unpublished %s\n", rc == MPI_SUCCESS ? "well" : "badly");
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        int rc = MPI_Lookup_name("ocean", MPI_INFO_NULL, port);
        printf("then %s\n", rc == MPI_SUCCESS ? "found" : "not found");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int rank, size, i;
    MPI_Comm parent, other = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    const char *mode = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 1;
    char cwd[4096] = "";

    args = argv;
    if (strcmp(mode, "die") == 0 && getenv("OMPI_PARENT_PORT"))
        return n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        int app = -1, *num = NULL, flag;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &num, &flag);
        if (flag)
            app = *num;
        if (!getcwd(cwd, sizeof cwd))
            fail("getcwd");
        printf("child %d of %d, program %d, last word %s, in %s on %s\n", rank, size, app, argv[argc - 1], cwd, getenv("FILCH_NODE") ? getenv("FILCH_NODE") : "-");
        fflush(stdout);
        if (strcmp(mode, "abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, n);
        if (strcmp(mode, "hold") == 0) {
            printf("child: holds %d\n", (int)getpid());
            fflush(stdout);
            pause();
        }
        talk(parent, 1);
        if (strcmp(mode, "deep") == 0) {
            char *words[] = {"one", NULL};
            other = start(argv[0], words, n, MPI_INFO_NULL, MPI_COMM_WORLD);
            if (other == MPI_COMM_NULL)
                fail("no second spawn");
            talk(other, 0);
            MPI_Comm_disconnect(&other);
        }
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    if (strcmp(mode, "names") == 0) {
        names(rank, size);
    } else if (strcmp(mode, "two") == 0) {
        char *commands[] = {argv[0], argv[0]};
        char *first[] = {"one", "alpha", NULL}, *second[] = {"one", "beta", NULL};
        char **words[] = {first, second};
        int counts[] = {n, argc > 3 ? atoi(argv[3]) : 1}, errs[4096];
        MPI_Info none[] = {MPI_INFO_NULL, MPI_INFO_NULL};
        if (MPI_Comm_spawn_multiple(2, commands, words, counts, none, 0, MPI_COMM_WORLD, &other, errs) != MPI_SUCCESS)
            fail("no spawn of two programs");
        talk(other, 0);
        MPI_Comm_disconnect(&other);
    } else if (strcmp(mode, "again") == 0) {
        char *words[] = {"one", NULL};
        for (i = 0; i < n; i++) {
            other = start(argv[0], words, 1, MPI_INFO_NULL, MPI_COMM_WORLD);
            if (other == MPI_COMM_NULL)
                fail("no spawn");
            talk(other, 0);
            MPI_Comm_disconnect(&other);
        }
    } else if (strcmp(mode, "universe") == 0) {
        int *most = NULL, flag;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &most, &flag);
        if (rank == 0)
            printf("universe %d\n", flag ? *most : -1);
    } else if (strcmp(mode, "nothing") == 0) {
        start("/nonexistent/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, MPI_COMM_WORLD);
    } else {
        int ranks = strcmp(mode, "one") == 0 ? n : 1;
        for (i = 3; i < argc; i++) {
            char *value = strchr(argv[i], '=');
            if (!value)
                continue;
            *value = 0;
            if (info == MPI_INFO_NULL)
                MPI_Info_create(&info);
            MPI_Info_set(info, argv[i], value + 1);
        }
        other = start(argv[0], argv + 1, ranks, info, MPI_COMM_WORLD);
        if (other != MPI_COMM_NULL) {
            if (strcmp(mode, "hold") == 0) {
                printf("parent: holds %d\n", (int)getpid());
                fflush(stdout);
                pause();
            }
            talk(other, 0);
            MPI_Comm_disconnect(&other);
        }
    }
    MPI_Finalize();
    return 0;
}
