/* member INDEX MARKS ROUNDS MS: the member INDEX of an ensemble. In each round the ranks
   sum vectors that depend on INDEX, check every sum, and sleep for MS milliseconds. Rank 0
   prints the last sum.

   Each rank appends lines to MARKS/marks: "begin" before MPI_Init, "end" after
   MPI_Finalize. From the begin to the death of its process, a rank holds the lock of the
   file MARKS/INDEX.RANK. A rank that finds the lock taken appends "beside": the same rank of
   another attempt lives. */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LENGTH 256

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "?";
}

static int mark(const char *dir, const char *index, const char *what)
{
    char path[512], line[256];
    int fd, n;

    snprintf(path, sizeof path, "%s/marks", dir);
    n = snprintf(line, sizeof line, "%s %s %s %s %s %s\n", index, env("FILCH_RUN"), env("FILCH_ATTEMPT"),
                 env("FILCH_RANK"), what, env("FILCH_NODE"));
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, line, n) != n || close(fd) < 0) {
        fprintf(stderr, "member: %s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int rank, size, bad = 0, lock;
    long in[LENGTH], out[LENGTH] = {0};
    char path[512];

    if (argc != 5) {
        fprintf(stderr, "usage: member INDEX MARKS ROUNDS MS\n");
        return 2;
    }
    long index = atol(argv[1]), rounds = atol(argv[3]), ms = atol(argv[4]);
    snprintf(path, sizeof path, "%s/%s.%s", argv[2], argv[1], env("FILCH_RANK"));
    lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0) {
        fprintf(stderr, "member: %s: %s\n", path, strerror(errno));
        return 2;
    }
    if (flock(lock, LOCK_EX | LOCK_NB) < 0 && mark(argv[2], argv[1], "beside"))
        return 2;
    if (mark(argv[2], argv[1], "begin"))
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long k = 0; k < rounds; k++) {
        for (int i = 0; i < LENGTH; i++)
            in[i] = 1000 * index + 10 * k + i + rank;
        MPI_Allreduce(in, out, LENGTH, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < LENGTH; i++)
            bad += out[i] != size * (1000 * index + 10 * k + i) + size * (size - 1) / 2;
        usleep(1000 * ms);
    }
    if (rank == 0)
        printf("member %ld of %d ranks: %ld, %d wrong\n", index, size, out[0], bad);
    MPI_Finalize();
    if (mark(argv[2], argv[1], "end"))
        return 2;
    return bad != 0;
}
