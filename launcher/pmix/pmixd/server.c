/* What the keeper asks for: the calls of libpmix. All of it runs on the main
 * thread. */
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pmixd.h"

struct library lib;
static pmix_nspace_t job;

/* LINGER is how many seconds libpmix may take to clean up after the ranks. */
enum { NOWHERE = UINT32_MAX };
enum { LINGER = 1, NODES_MAX = 1 << 20, RANKS_MAX = 1 << 24 };

/* latch waits for an asynchronous call. One that is not waited for to its end
 * stays behind for its late callback. */
struct latch {
	pthread_mutex_t lock;
	pthread_cond_t turned;
	int done;
	pmix_status_t status;
};

static struct latch *latch_new(void)
{
	struct latch *l = must(calloc(1, sizeof *l));
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->turned, NULL);
	return l;
}

static void latch_turn(pmix_status_t status, void *cookie)
{
	struct latch *l = cookie;
	pthread_mutex_lock(&l->lock);
	l->done = 1;
	l->status = status;
	pthread_cond_signal(&l->turned);
	pthread_mutex_unlock(&l->lock);
}

/* latch_wait is the status of the call that returned r at once. */
static pmix_status_t latch_wait(struct latch *l, pmix_status_t r)
{
	if (r == PMIX_OPERATION_SUCCEEDED)
		return PMIX_SUCCESS;
	if (r != PMIX_SUCCESS)
		return r;
	pthread_mutex_lock(&l->lock);
	while (!l->done)
		pthread_cond_wait(&l->turned, &l->lock);
	r = l->status;
	pthread_mutex_unlock(&l->lock);
	return r;
}

static void expect(pmix_status_t r, const char *call)
{
	if (r != PMIX_SUCCESS)
		failed(FAILED_CALL, "%s: %s (%d)", call, lib.error_string(r), r);
}

/* open_library tries what the user names, what the loader finds, and where
 * Debian keeps its own. */
static void *open_library(void)
{
	const char *named = getenv("FILCH_LIBPMIX");
	void *h = dlopen(named && *named ? named : "libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
	if (h || (named && *named))
		return h;
	char why[512];
	snprintf(why, sizeof why, "%s", dlerror());
	glob_t found;
	if (glob("/usr/lib/*/pmix*/lib/libpmix.so.2", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc && !h; i++)
			h = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
		globfree(&found);
	}
	if (!h)
		failed(FAILED_LIBRARY, "%s", why);
	return h;
}

static void *symbol(void *h, const char *name)
{
	void *p = dlsym(h, name);
	if (!p)
		failed(FAILED_SYMBOL, "%s", name);
	return p;
}

static void load(void)
{
	void *h = open_library();
	if (!h)
		failed(FAILED_LIBRARY, "%s", dlerror());
	*(void **)&lib.error_string = symbol(h, "PMIx_Error_string");
	*(void **)&lib.get_version = symbol(h, "PMIx_Get_version");
	*(void **)&lib.server_init = symbol(h, "PMIx_server_init");
	*(void **)&lib.generate_regex = symbol(h, "PMIx_generate_regex");
	*(void **)&lib.generate_ppn = symbol(h, "PMIx_generate_ppn");
	*(void **)&lib.register_nspace = symbol(h, "PMIx_server_register_nspace");
	*(void **)&lib.register_client = symbol(h, "PMIx_server_register_client");
	*(void **)&lib.setup_fork = symbol(h, "PMIx_server_setup_fork");
	*(void **)&lib.dmodex_request = symbol(h, "PMIx_server_dmodex_request");
	*(void **)&lib.deregister_nspace = symbol(h, "PMIx_server_deregister_nspace");
	*(void **)&lib.data_pack = symbol(h, "PMIx_Data_pack");
	*(void **)&lib.data_unpack = symbol(h, "PMIx_Data_unpack");
}

/* infos is a list of facts for libpmix. */
struct infos {
	pmix_info_t *list;
	size_t len, cap;
};

static pmix_info_t *add(struct infos *s, const char *key, pmix_data_type_t type)
{
	if (s->len == s->cap) {
		s->cap = 2 * s->cap + 16;
		s->list = must(realloc(s->list, s->cap * sizeof *s->list));
	}
	pmix_info_t *i = &s->list[s->len++];
	memset(i, 0, sizeof *i);
	strncpy(i->key, key, sizeof i->key - 1);
	i->value.type = type;
	return i;
}

static void add_text(struct infos *s, const char *key, const char *v)
{
	add(s, key, PMIX_STRING)->value.data.string = must(strdup(v));
}

static void add_u32(struct infos *s, const char *key, uint32_t v) { add(s, key, PMIX_UINT32)->value.data.uint32 = v; }
static void add_u16(struct infos *s, const char *key, uint16_t v) { add(s, key, PMIX_UINT16)->value.data.uint16 = v; }
static void add_rank(struct infos *s, const char *key, uint32_t v) { add(s, key, PMIX_PROC_RANK)->value.data.rank = v; }
static void add_bool(struct infos *s, const char *key, int v) { add(s, key, PMIX_BOOL)->value.data.flag = v; }

static void add_regex(struct infos *s, const char *key, char *v)
{
	pmix_info_t *i = add(s, key, PMIX_REGEX);
	i->value.data.bo.bytes = v;
	i->value.data.bo.size = strlen(v) + 1;
}

/* text is a string that grows. */
struct text {
	char *s;
	size_t len, cap;
};

__attribute__((format(printf, 2, 3))) static void append(struct text *t, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (t->len + n + 1 > t->cap) {
		t->cap = 2 * t->cap + n + 64;
		t->s = must(realloc(t->s, t->cap));
	}
	va_start(args, format);
	vsnprintf(t->s + t->len, n + 1, format, args);
	va_end(args);
	t->len += n;
}

/* shape is the job as the keeper describes it. */
struct shape {
	char *nspace, *server, *dir, *host;
	char *parent; /* of a spawned job: the namespace of the process that called */
	uint32_t parent_rank;
	uint32_t me, size, universe, apps, nodes; /* me is NOWHERE for another job */
	struct text names, ranks, peers; /* of all nodes; of all; of this one */
	uint32_t *local, nlocal;         /* ranks of this node */
	struct infos procs;              /* one for each rank of the job */
};

/* read_rank describes one rank. */
static void read_rank(struct reader *r, struct shape *j, uint32_t node, const char *host, uint32_t local)
{
	uint32_t rank = read_u32(r), app = read_u32(r);
	if (rank >= j->size)
		r->ok = 0;
	append(&j->ranks, "%s%u", local ? "," : "", rank);
	if (node == j->me) {
		append(&j->peers, "%s%u", local ? "," : "", rank);
		j->local[local] = rank;
	}
	struct infos p = {0};
	add_rank(&p, PMIX_RANK, rank); /* must be the first */
	add_rank(&p, PMIX_GLOBAL_RANK, rank);
	add_rank(&p, PMIX_APP_RANK, rank);
	add_u32(&p, PMIX_APPNUM, app);
	add_u16(&p, PMIX_LOCAL_RANK, local);
	add_u16(&p, PMIX_NODE_RANK, local);
	add_u32(&p, PMIX_NODEID, node);
	add_text(&p, PMIX_HOSTNAME, host);
	pmix_data_array_t *a = must(calloc(1, sizeof *a));
	a->type = PMIX_INFO;
	a->size = p.len;
	a->array = p.list;
	add(&j->procs, PMIX_PROC_DATA, PMIX_DATA_ARRAY)->value.data.darray = a;
}

/* read_layout reads the namespace, the nodes and the ranks of a job. */
static int read_layout(struct reader *r, struct shape *j)
{
	j->nspace = read_text(r);
	j->size = read_u32(r);
	j->universe = read_u32(r);
	j->apps = read_u32(r);
	j->nodes = read_u32(r);
	if (!r->ok || j->nodes > NODES_MAX || j->size > RANKS_MAX || strlen(j->nspace) > PMIX_MAX_NSLEN)
		return 0;
	for (uint32_t n = 0; n < j->nodes && r->ok; n++) {
		char *host = read_text(r);
		uint32_t count = read_u32(r);
		if (!r->ok || count > (size_t)(r->end - r->at) / 8)
			return 0;
		append(&j->names, "%s%s", n ? "," : "", host);
		append(&j->ranks, "%s", n ? ";" : "");
		if (n == j->me) {
			j->host = host;
			j->nlocal = count;
			j->local = must(calloc(count + 1, sizeof *j->local));
		}
		for (uint32_t i = 0; i < count; i++)
			read_rank(r, j, n, host, i);
	}
	return r->ok && r->at == r->end;
}

/* read_shape reads the whole of IN_SETUP. */
static int read_shape(struct reader *r, struct shape *j)
{
	if (read_u32(r) != PROTOCOL)
		failed(FAILED_SETUP, "this pmixd is of another version than its keeper");
	j->server = read_text(r);
	j->dir = read_text(r);
	j->me = read_u32(r);
	j->parent = read_text(r);
	j->parent_rank = read_u32(r);
	return read_layout(r, j) && j->nlocal > 0 && strlen(j->parent) <= PMIX_MAX_NSLEN;
}

/* begin starts the server of libpmix. */
static void begin(const struct shape *j)
{
	struct infos s = {0};
	add_text(&s, PMIX_SERVER_TMPDIR, j->dir);
	add_text(&s, PMIX_SYSTEM_TMPDIR, j->dir);
	add_text(&s, PMIX_HOSTNAME, j->host);
	add_text(&s, PMIX_SERVER_NSPACE, j->server);
	add_rank(&s, PMIX_SERVER_RANK, j->me);
	expect(lib.server_init(&module, s.list, s.len), "PMIx_server_init");
}

/* describe tells libpmix of the job: what a rank can ask about. */
static void describe(struct shape *j)
{
	char *nodes, *ranks, *sub;
	expect(lib.generate_regex(j->names.s, &nodes), "PMIx_generate_regex");
	expect(lib.generate_ppn(j->ranks.s, &ranks), "PMIx_generate_ppn");
	struct infos s = {0};
	add_u32(&s, PMIX_UNIV_SIZE, j->universe);
	add_u32(&s, PMIX_MAX_PROCS, j->size); /* Open MPI 4 does not start without */
	add_u32(&s, PMIX_JOB_SIZE, j->size);
	add_u32(&s, PMIX_JOB_NUM_APPS, j->apps);
	add_u32(&s, PMIX_NUM_NODES, j->nodes);
	add_text(&s, PMIX_JOBID, j->nspace);
	add_bool(&s, PMIX_SPAWNED, j->parent && j->parent[0]);
	if (j->parent && j->parent[0]) {
		pmix_proc_t *p = must(calloc(1, sizeof *p));
		strncpy(p->nspace, j->parent, sizeof p->nspace - 1);
		p->rank = j->parent_rank;
		add(&s, PMIX_PARENT_ID, PMIX_PROC)->value.data.proc = p;
	}
	add_regex(&s, PMIX_NODE_MAP, nodes);
	add_regex(&s, PMIX_PROC_MAP, ranks);
	if (j->nlocal > 0) {
		add_u32(&s, PMIX_LOCAL_SIZE, j->nlocal);
		add_u32(&s, PMIX_NODE_SIZE, j->nlocal);
		add_text(&s, PMIX_LOCAL_PEERS, j->peers.s);
		add_rank(&s, PMIX_LOCALLDR, j->local[0]);
		add_text(&s, PMIX_TMPDIR, j->dir);
		sub = must(malloc(strlen(j->dir) + 4));
		sprintf(sub, "%s/ns", j->dir);
		add_text(&s, PMIX_NSDIR, sub);
		add_bool(&s, PMIX_TDIR_RMCLEAN, 1);
	}
	for (size_t i = 0; i < j->procs.len; i++)
		*add(&s, "", PMIX_UNDEF) = j->procs.list[i];
	struct latch *l = latch_new();
	expect(latch_wait(l, lib.register_nspace(j->nspace, j->nlocal, s.list, s.len, latch_turn, l)),
		"PMIx_server_register_nspace");
}

/* admit lets one rank in and tells the keeper the environment that it needs. */
static void admit(uint32_t rank)
{
	pmix_proc_t p;
	memset(&p, 0, sizeof p);
	memcpy(p.nspace, job, sizeof p.nspace);
	p.rank = rank;
	struct latch *l = latch_new();
	expect(latch_wait(l, lib.register_client(&p, geteuid(), getegid(), NULL, latch_turn, l)),
		"PMIx_server_register_client");
	char **env = NULL;
	expect(lib.setup_fork(&p, &env), "PMIx_server_setup_fork");
	for (char **e = env; e && *e; e++) {
		struct event *v = event_new(OUT_ENV);
		event_u32(v, rank);
		event_text(v, *e);
		event_post(v);
		free(*e);
	}
	free(env);
}

int server_setup(struct reader *r)
{
	struct shape j = {0};
	if (job[0] || !read_shape(r, &j))
		return 0;
	strncpy(job, j.nspace, sizeof job - 1);
	module_begin(job);
	load();
	begin(&j);
	describe(&j);
	for (uint32_t i = 0; i < j.nlocal; i++)
		admit(j.local[i]);
	struct event *e = event_new(OUT_READY);
	event_text(e, lib.get_version());
	event_post(e);
	return 1;
}

/* server_know describes another job of the family to libpmix, once. */
int server_know(struct reader *r)
{
	static struct known {
		struct known *next;
		char *nspace;
	} *all;
	struct shape j = {.me = NOWHERE};
	if (!job[0] || !read_layout(r, &j) || strcmp(j.nspace, job) == 0)
		return 0;
	for (struct known *k = all; k; k = k->next)
		if (strcmp(k->nspace, j.nspace) == 0)
			return 1;
	struct known *k = must(calloc(1, sizeof *k));
	k->nspace = j.nspace;
	k->next = all;
	all = k;
	describe(&j);
	return 1;
}

static int answer(struct reader *r)
{
	uint32_t id = read_u32(r);
	pmix_status_t status = (pmix_status_t)read_u32(r);
	size_t len;
	const unsigned char *data = read_blob(r, &len);
	return r->ok && r->at == r->end && module_answer(id, status, data, len);
}

int server_fence_done(struct reader *r) { return answer(r); }
int server_modex_done(struct reader *r) { return answer(r); }

static void modex_have(uint32_t id, pmix_status_t status, const char *data, size_t len)
{
	struct event *e = event_new(OUT_MODEX_HAVE);
	event_u32(e, id);
	event_u32(e, (uint32_t)status);
	event_blob(e, data, len);
	event_post(e);
}

static void modex_got(pmix_status_t status, char *data, size_t len, void *cookie)
{
	modex_have((uint32_t)(uintptr_t)cookie, status, data, len);
}

/* server_modex_ask fetches what a rank of this node has put for others; libpmix
 * answers when the rank has committed it. */
int server_modex_ask(struct reader *r)
{
	uint32_t id = read_u32(r), rank = read_u32(r);
	if (!r->ok || r->at != r->end)
		return 0;
	pmix_proc_t p;
	memset(&p, 0, sizeof p);
	memcpy(p.nspace, job, sizeof p.nspace);
	p.rank = rank;
	pmix_status_t s = lib.dmodex_request(&p, modex_got, (void *)(uintptr_t)id);
	if (s != PMIX_SUCCESS)
		modex_have(id, s, NULL, 0);
	return 1;
}

/* server_quit has libpmix remove what the ranks asked it to, and ends. Its own
 * files are in a folder that the keeper removes. */
void server_quit(void)
{
	if (lib.deregister_nspace) {
		struct latch *l = latch_new();
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += LINGER;
		lib.deregister_nspace(job, latch_turn, l);
		pthread_mutex_lock(&l->lock);
		while (!l->done && pthread_cond_timedwait(&l->turned, &l->lock, &until) == 0)
			;
		pthread_mutex_unlock(&l->lock);
	}
	_exit(0);
}
