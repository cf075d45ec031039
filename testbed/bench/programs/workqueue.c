/* workqueue WORKERS CORES DIR: a manager of Work Queue with workers of so many
   cores on this machine. It has no name, so no catalog hears of it. It reads
   lines "N COMMAND", runs the command N times, and answers each line with how
   many of them went wrong. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cctools/work_queue.h>

static void submit(struct work_queue *q, const char *command) {
	struct work_queue_task *t = work_queue_task_create(command);
	work_queue_task_specify_cores(t, 1);
	work_queue_task_specify_memory(t, 1);
	work_queue_task_specify_disk(t, 1);
	work_queue_submit(q, t);
}

/* drain waits for all tasks and returns how many went wrong. */
static long drain(struct work_queue *q) {
	long bad = 0;
	while (!work_queue_empty(q)) {
		struct work_queue_task *t = work_queue_wait(q, 1);
		if (!t)
			continue;
		bad += t->result != 0 || t->return_status != 0;
		work_queue_task_delete(t);
	}
	return bad;
}

/* worker starts one that ends with us. What it prints is not for our reader. */
static void worker(int port, const char *cores, const char *dir) {
	char number[16];
	snprintf(number, sizeof number, "%d", port);
	if (fork() != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	dup2(2, 1);
	execlp("work_queue_worker", "work_queue_worker", "--cores", cores, "--memory", "1000", "--disk", "1000",
	       "-s", dir, "-i", "1", "-b", "1", "-t", "3600", "127.0.0.1", number, NULL);
	perror("work_queue_worker");
	_exit(1);
}

int main(int argc, char **argv) {
	if (argc != 4) {
		fprintf(stderr, "usage: workqueue WORKERS CORES DIR\n");
		return 2;
	}
	int workers = atoi(argv[1]);
	struct work_queue *q = work_queue_create(0);
	if (!q) {
		perror("work_queue_create");
		return 1;
	}
	for (int i = 0; i < workers; i++)
		worker(work_queue_port(q), argv[2], argv[3]);
	/* Workers are taken in while somebody waits for a task. */
	for (struct work_queue_stats s = {0}; s.workers_connected < workers; work_queue_get_stats(q, &s)) {
		submit(q, "true");
		drain(q);
	}
	char *line = NULL, *command;
	size_t room = 0;
	while (getline(&line, &room, stdin) > 0) {
		for (long n = strtol(line, &command, 10); n > 0; n--)
			submit(q, command);
		printf("%ld\n", drain(q));
		fflush(stdout);
	}
	return 0;
}
