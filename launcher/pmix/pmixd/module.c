/* What libpmix calls: the requests of the ranks. Everything here runs on its
 * progress thread and must not wait. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pmixd.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *waiting; /* under lock */
static uint32_t serial;         /* under lock */
static pmix_nspace_t job;

void module_begin(const char *nspace)
{
	strncpy(job, nspace, sizeof job - 1);
}

int module_ours(const char *nspace)
{
	return strncmp(nspace, job, sizeof job) == 0;
}

uint32_t pend(struct pending q)
{
	struct pending *p = must(malloc(sizeof *p));
	*p = q;
	pthread_mutex_lock(&lock);
	uint32_t id = p->id = ++serial;
	p->next = waiting;
	waiting = p;
	pthread_mutex_unlock(&lock);
	return id;
}

struct pending *pending_take(uint32_t id)
{
	pthread_mutex_lock(&lock);
	struct pending **at = &waiting, *p;
	while ((p = *at) && p->id != id)
		at = &p->next;
	if (p)
		*at = p->next;
	pthread_mutex_unlock(&lock);
	return p;
}

/* module_answer gives libpmix the data that it waits for; false when it waits
 * for no such thing. */
int module_answer(uint32_t id, pmix_status_t status, const unsigned char *data, size_t len)
{
	struct pending *p = pending_take(id);
	if (!p || !p->modex) {
		free(p);
		return 0;
	}
	char *copy = NULL;
	if (len > 0) {
		copy = must(malloc(len));
		memcpy(copy, data, len);
	}
	p->modex(status, copy, len, p->cookie, copy ? free : NULL, copy);
	free(p);
	return 1;
}

/* pass sends a frame and answers the rank when it was sent. PMIx 4.2 gives no
 * callback for a connection: then the answer is the return value. */
static pmix_status_t pass(struct event *e, pmix_op_cbfunc_t done, void *cookie)
{
	e->done = done;
	e->cookie = cookie;
	event_post(e);
	return done ? PMIX_SUCCESS : PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t connected(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t ninfo,
	pmix_op_cbfunc_t done, void *cookie)
{
	(void)object, (void)info, (void)ninfo;
	struct event *e = event_new(OUT_CONNECTED);
	event_u32(e, proc->rank);
	return pass(e, done, cookie);
}

static pmix_status_t finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *cookie)
{
	(void)object;
	struct event *e = event_new(OUT_FINALIZED);
	event_u32(e, proc->rank);
	return pass(e, done, cookie);
}

static pmix_status_t aborted(const pmix_proc_t *proc, void *object, int status, const char text[],
	pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *cookie)
{
	(void)object, (void)procs, (void)nprocs;
	struct event *e = event_new(OUT_ABORTED);
	event_u32(e, proc->rank);
	event_u32(e, (uint32_t)status);
	event_text(e, text);
	return pass(e, done, cookie);
}

/* fence is called once, when all ranks of this node that take part are in. The
 * whole job is said by no ranks at all. */
static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
	char *data, size_t len, pmix_modex_cbfunc_t answer, void *cookie)
{
	(void)info, (void)ninfo;
	int whole = 0;
	for (size_t i = 0; i < nprocs; i++) {
		if (!module_ours(procs[i].nspace))
			return family_fence(procs, nprocs, data, len, answer, cookie);
		whole |= procs[i].rank == PMIX_RANK_WILDCARD;
	}
	struct event *e = event_new(OUT_FENCE);
	event_u32(e, pend((struct pending){.modex = answer, .cookie = cookie}));
	event_u32(e, whole ? 0 : nprocs);
	for (size_t i = 0; i < nprocs && !whole; i++)
		event_u32(e, procs[i].rank);
	event_blob(e, data, len);
	event_post(e);
	return PMIX_SUCCESS;
}

static pmix_status_t modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
	pmix_modex_cbfunc_t answer, void *cookie)
{
	(void)info, (void)ninfo;
	if (proc->rank >= PMIX_RANK_VALID)
		return PMIX_ERR_NOT_FOUND;
	if (!module_ours(proc->nspace))
		return family_modex(proc, answer, cookie);
	struct event *e = event_new(OUT_MODEX_NEED);
	event_u32(e, pend((struct pending){.modex = answer, .cookie = cookie}));
	event_u32(e, proc->rank);
	event_post(e);
	return PMIX_SUCCESS;
}

/* job_control must be there although it refuses: only then does libpmix keep
 * what ranks ask to be removed after them (PMIX_REGISTER_CLEANUP). */
static pmix_status_t job_control(const pmix_proc_t *p, const pmix_proc_t t[], size_t nt, const pmix_info_t i[], size_t n,
	pmix_info_cbfunc_t cb, void *c)
{
	(void)p, (void)t, (void)nt, (void)i, (void)n, (void)cb, (void)c;
	return PMIX_ERR_NOT_SUPPORTED;
}

/* Ranks register for events of each other; there are none of ours: a rank that
 * dies ends the job. */
static pmix_status_t events_on(pmix_status_t *k, size_t nk, const pmix_info_t i[], size_t n, pmix_op_cbfunc_t cb, void *c)
{
	(void)k, (void)nk, (void)i, (void)n, (void)cb, (void)c;
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t events_off(pmix_status_t *k, size_t nk, pmix_op_cbfunc_t cb, void *c)
{
	(void)k, (void)nk, (void)cb, (void)c;
	return PMIX_OPERATION_SUCCEEDED;
}

pmix_server_module_t module = {
	.client_connected2 = connected,
	.client_finalized = finalized,
	.abort = aborted,
	.fence_nb = fence,
	.direct_modex = modex,
	.publish = family_publish,
	.lookup = family_lookup,
	.unpublish = family_unpublish,
	.spawn = family_spawn,
	.connect = family_connect,
	.disconnect = family_disconnect,
	.job_control = job_control,
	.register_events = events_on,
	.deregister_events = events_off,
};
