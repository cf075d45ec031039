/* What ranks ask of the jobs that spawned them or that they spawned: the names
 * that a job publishes, new ranks, and collectives of several jobs. The keeper
 * asks the hub of the family. libpmix calls on its progress thread, and must
 * not wait. */
#include <stdlib.h>
#include <string.h>

#include "pmixd.h"

/* The kinds of OUT_JOIN. */
enum { JOIN_CONNECT = 1, JOIN_DISCONNECT, JOIN_FENCE };

/* directive reports whether a key is an order to the server and no name. */
static int directive(const char *key)
{
	return strncmp(key, "pmix.", 5) == 0;
}

/* number reads a value that callers give in several types. */
static uint32_t number(const pmix_value_t *v)
{
	switch (v->type) {
	case PMIX_BOOL:
		return v->data.flag;
	case PMIX_PERSIST:
		return v->data.persist;
	case PMIX_UINT8:
		return v->data.uint8;
	case PMIX_INT:
		return v->data.integer > 0 ? v->data.integer : 0;
	case PMIX_INT32:
		return v->data.int32 > 0 ? v->data.int32 : 0;
	case PMIX_UINT32:
		return v->data.uint32;
	case PMIX_SIZE:
		return v->data.size;
	case PMIX_UNDEF:
		return 1; /* named without a value */
	}
	return 0;
}

static const pmix_info_t *find(const pmix_info_t info[], size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(info[i].key, key, sizeof info[i].key) == 0)
			return &info[i];
	return NULL;
}

pmix_status_t family_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t done, void *cookie)
{
	const pmix_info_t *keep = find(info, n, PMIX_PERSISTENCE);
	uint32_t names = 0;
	for (size_t i = 0; i < n; i++)
		names += !directive(info[i].key);
	struct event *e = event_new(OUT_PUBLISH);
	event_u32(e, pend((struct pending){.done = done, .cookie = cookie}));
	event_u32(e, keep ? number(&keep->value) : PMIX_PERSIST_APP);
	event_u32(e, proc->rank);
	event_u32(e, names);
	for (size_t i = 0; i < n; i++) {
		if (directive(info[i].key))
			continue;
		pmix_data_buffer_t b = {0};
		event_text(e, info[i].key);
		if (lib.data_pack(NULL, &b, (void *)&info[i].value, 1, PMIX_VALUE) == PMIX_SUCCESS)
			event_blob(e, b.base_ptr, b.bytes_used);
		else
			event_blob(e, NULL, 0);
		free(b.base_ptr);
	}
	event_post(e);
	return PMIX_SUCCESS;
}

static void names(struct event *e, char **keys)
{
	uint32_t n = 0;
	while (keys && keys[n])
		n++;
	event_u32(e, n);
	for (uint32_t i = 0; i < n; i++)
		event_text(e, keys[i]);
}

pmix_status_t family_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t n,
	pmix_lookup_cbfunc_t done, void *cookie)
{
	(void)proc;
	const pmix_info_t *wait = find(info, n, PMIX_WAIT), *limit = find(info, n, PMIX_TIMEOUT);
	if (!keys || !keys[0])
		return PMIX_ERR_BAD_PARAM;
	struct event *e = event_new(OUT_LOOKUP);
	event_u32(e, pend((struct pending){.lookup = done, .cookie = cookie}));
	/* How many names to wait for is a number, of which 0 means all. */
	event_u32(e, wait && (wait->value.type != PMIX_BOOL || wait->value.data.flag));
	event_u32(e, limit ? number(&limit->value) : 0);
	names(e, keys);
	event_post(e);
	return PMIX_SUCCESS;
}

pmix_status_t family_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t n,
	pmix_op_cbfunc_t done, void *cookie)
{
	(void)proc, (void)info, (void)n;
	struct event *e = event_new(OUT_UNPUBLISH);
	event_u32(e, pend((struct pending){.done = done, .cookie = cookie}));
	names(e, keys);
	event_post(e);
	return PMIX_SUCCESS;
}

static void join(int kind, const pmix_proc_t procs[], size_t n, const char *data, size_t len, struct pending p)
{
	struct event *e = event_new(OUT_JOIN);
	event_u32(e, pend(p));
	event_u32(e, kind);
	event_u32(e, n);
	for (size_t i = 0; i < n; i++) {
		event_text(e, procs[i].nspace);
		event_u32(e, procs[i].rank);
	}
	event_blob(e, data, len);
	event_post(e);
}

pmix_status_t family_connect(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo,
	pmix_op_cbfunc_t done, void *cookie)
{
	(void)info, (void)ninfo;
	join(JOIN_CONNECT, procs, n, NULL, 0, (struct pending){.done = done, .cookie = cookie});
	return PMIX_SUCCESS;
}

pmix_status_t family_disconnect(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo,
	pmix_op_cbfunc_t done, void *cookie)
{
	(void)info, (void)ninfo;
	join(JOIN_DISCONNECT, procs, n, NULL, 0, (struct pending){.done = done, .cookie = cookie});
	return PMIX_SUCCESS;
}

pmix_status_t family_fence(const pmix_proc_t procs[], size_t n, char *data, size_t len, pmix_modex_cbfunc_t answer, void *cookie)
{
	join(JOIN_FENCE, procs, n, data, len, (struct pending){.modex = answer, .cookie = cookie});
	return PMIX_SUCCESS;
}

pmix_status_t family_modex(const pmix_proc_t *proc, pmix_modex_cbfunc_t answer, void *cookie)
{
	struct event *e = event_new(OUT_MODEX_FAR);
	event_u32(e, pend((struct pending){.modex = answer, .cookie = cookie}));
	event_text(e, proc->nspace);
	event_u32(e, proc->rank);
	event_post(e);
	return PMIX_SUCCESS;
}

/* infos sends the infos that are text, or a flag that is set. */
static void infos(struct event *e, const pmix_info_t info[], size_t n)
{
	uint32_t count = 0;
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			event_u32(e, 2 * count);
		for (size_t i = 0; i < n; i++) {
			const pmix_value_t *v = &info[i].value;
			int flag = v->type == PMIX_BOOL && v->data.flag;
			if (!flag && (v->type != PMIX_STRING || !v->data.string))
				continue;
			if (!pass) {
				count++;
				continue;
			}
			event_text(e, info[i].key);
			event_text(e, flag ? "true" : v->data.string);
		}
	}
}

pmix_status_t family_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, const pmix_app_t apps[], size_t napps,
	pmix_spawn_cbfunc_t done, void *cookie)
{
	if (napps == 0)
		return PMIX_ERR_BAD_PARAM;
	for (size_t i = 0; i < napps; i++)
		if (apps[i].maxprocs < 1 || (!apps[i].cmd && (!apps[i].argv || !apps[i].argv[0])))
			return PMIX_ERR_BAD_PARAM;
	struct event *e = event_new(OUT_SPAWN);
	event_u32(e, pend((struct pending){.spawn = done, .cookie = cookie}));
	event_u32(e, proc->rank);
	infos(e, info, n);
	event_u32(e, napps);
	for (size_t i = 0; i < napps; i++) {
		/* The command is the first word; argv[0] may be its last part only. */
		uint32_t argc = 0;
		while (apps[i].argv && apps[i].argv[argc])
			argc++;
		event_u32(e, argc ? argc : 1);
		event_text(e, apps[i].cmd ? apps[i].cmd : apps[i].argv[0]);
		for (uint32_t k = 1; k < argc; k++)
			event_text(e, apps[i].argv[k]);
		names(e, apps[i].env);
		event_u32(e, apps[i].maxprocs);
		infos(e, apps[i].info, apps[i].ninfo);
	}
	event_post(e);
	return PMIX_SUCCESS;
}

/* found gives libpmix the names that a lookup found. */
static int found(struct pending *p, pmix_status_t status, const unsigned char *data, size_t len)
{
	struct reader r = {data, data + len, 1};
	size_t n = 0, cap = 0;
	pmix_pdata_t *list = NULL;
	while (r.at < r.end) {
		if (n == cap) {
			cap = 2 * cap + 4;
			list = must(realloc(list, cap * sizeof *list));
		}
		pmix_pdata_t *d = &list[n];
		memset(d, 0, sizeof *d);
		char *space = read_text(&r);
		strncpy(d->proc.nspace, space, sizeof d->proc.nspace - 1);
		free(space);
		d->proc.rank = read_u32(&r);
		char *key = read_text(&r);
		strncpy(d->key, key, sizeof d->key - 1);
		free(key);
		size_t size;
		const unsigned char *value = read_blob(&r, &size);
		if (!r.ok) {
			free(list);
			return 0;
		}
		pmix_data_buffer_t b = {0};
		int32_t one = 1;
		b.base_ptr = must(malloc(size + 1));
		memcpy(b.base_ptr, value, size);
		b.unpack_ptr = b.base_ptr;
		b.pack_ptr = b.base_ptr + size;
		b.bytes_allocated = b.bytes_used = size;
		if (lib.data_unpack(NULL, &b, &d->value, &one, PMIX_VALUE) == PMIX_SUCCESS)
			n++;
		free(b.base_ptr);
	}
	p->lookup(n > 0 ? status : PMIX_ERR_NOT_FOUND, list, n, p->cookie);
	for (size_t i = 0; i < n; i++) {
		pmix_value_t *v = &list[i].value;
		if (v->type == PMIX_STRING)
			free(v->data.string);
		else if (v->type == PMIX_BYTE_OBJECT)
			free(v->data.bo.bytes);
	}
	free(list);
	return 1;
}

int family_done(struct reader *r)
{
	uint32_t id = read_u32(r);
	pmix_status_t status = (pmix_status_t)read_u32(r);
	size_t len;
	const unsigned char *data = read_blob(r, &len);
	struct pending *p = r->ok && r->at == r->end ? pending_take(id) : NULL;
	int ok = p && (p->done || p->lookup);
	if (ok && p->done)
		p->done(status, p->cookie);
	else if (ok)
		ok = found(p, status, data, len);
	free(p);
	return ok;
}

int family_spawned(struct reader *r)
{
	uint32_t id = read_u32(r);
	pmix_status_t status = (pmix_status_t)read_u32(r);
	char *space = read_text(r);
	struct pending *p = r->ok && r->at == r->end ? pending_take(id) : NULL;
	int ok = p && p->spawn;
	if (ok)
		p->spawn(status, space, p->cookie); /* libpmix copies the name */
	free(p);
	free(space);
	return ok;
}
