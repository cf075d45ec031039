/* spawn N P PROGRAM ARGUMENT...: starts PROGRAM N times, P at a time, and waits
   for all. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv) {
	if (argc < 4) {
		fprintf(stderr, "usage: spawn N P PROGRAM ARGUMENT...\n");
		return 2;
	}
	long left = atol(argv[1]), room = atol(argv[2]), bad = 0;
	long running = 0;
	while (left > 0 || running > 0) {
		if (left > 0 && room > 0) {
			pid_t pid;
			if (posix_spawnp(&pid, argv[3], NULL, NULL, argv + 3, environ) != 0)
				return 1;
			left--, room--, running++;
			continue;
		}
		int status;
		if (wait(&status) < 0)
			return 1;
		bad += status != 0;
		room++, running--;
	}
	return bad != 0;
}
