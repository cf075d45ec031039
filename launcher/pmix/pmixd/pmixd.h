/*
 * pmixd is the PMIx server of one job on one node. It links no PMIx: libpmix is
 * opened at run time, so that one binary serves whatever a node has installed.
 *
 * Its keeper talks to it over a socket on descriptor 0, in frames; what each
 * carries is in frames.go. The keeper decides everything: what this process
 * hears of the ranks it passes on, and what it is told it passes to libpmix.
 *
 * Two threads meet here. libpmix calls back on a thread of its own, which must
 * never wait: a callback makes a frame and leaves it in the queue. The main
 * thread owns the socket, and answers libpmix after the frame was written, so
 * that a rank that goes on after MPI_Finalize was seen to finalize.
 */
#ifndef PMIXD_H
#define PMIXD_H

#include <stddef.h>
#include <stdint.h>
#include <pmix_server.h>

enum { PROTOCOL = 3, FRAME_MAX = (64 << 20) + (64 << 10), HEADER = 4 };

/* From the keeper. */
enum { IN_SETUP = 1, IN_FENCE_DONE, IN_MODEX_ASK, IN_MODEX_DONE, IN_QUIT, IN_DONE, IN_SPAWNED, IN_KNOW };

/* To the keeper. */
enum {
	OUT_ENV = 65, OUT_READY, OUT_FAILED, OUT_CONNECTED, OUT_FINALIZED, OUT_ABORTED,
	OUT_FENCE, OUT_MODEX_NEED, OUT_MODEX_HAVE, OUT_NOTE,
	OUT_PUBLISH, OUT_LOOKUP, OUT_UNPUBLISH, OUT_JOIN, OUT_MODEX_FAR, OUT_SPAWN
};

/* Why there is no server: the first field of OUT_FAILED. */
enum { FAILED_LIBRARY = 1, FAILED_SYMBOL, FAILED_CALL, FAILED_SETUP };

/* event is a frame on its way to the keeper, and what to do once it was sent. */
struct event {
	struct event *next;
	unsigned char *data;
	size_t len, cap, sent;
	pmix_op_cbfunc_t done;
	void *cookie;
};

struct event *event_new(int kind);
void event_u32(struct event *e, uint32_t v);
void event_blob(struct event *e, const void *data, size_t len);
void event_text(struct event *e, const char *s);
void event_post(struct event *e); /* from any thread */

/* reader takes fields off a frame; ok is cleared for good by the first that is
 * not there. */
struct reader {
	const unsigned char *at, *end;
	int ok;
};

uint32_t read_u32(struct reader *r);
const unsigned char *read_blob(struct reader *r, size_t *len);
char *read_text(struct reader *r); /* malloc'ed, never NULL */

/* library is what is used of libpmix. */
struct library {
	pmix_status_t (*server_init)(pmix_server_module_t *, pmix_info_t *, size_t);
	pmix_status_t (*generate_regex)(const char *, char **);
	pmix_status_t (*generate_ppn)(const char *, char **);
	pmix_status_t (*register_nspace)(const pmix_nspace_t, int, pmix_info_t *, size_t, pmix_op_cbfunc_t, void *);
	pmix_status_t (*register_client)(const pmix_proc_t *, uid_t, gid_t, void *, pmix_op_cbfunc_t, void *);
	pmix_status_t (*setup_fork)(const pmix_proc_t *, char ***);
	pmix_status_t (*dmodex_request)(const pmix_proc_t *, pmix_dmodex_response_fn_t, void *);
	void (*deregister_nspace)(const pmix_nspace_t, pmix_op_cbfunc_t, void *);
	pmix_status_t (*data_pack)(const pmix_proc_t *, pmix_data_buffer_t *, void *, int32_t, pmix_data_type_t);
	pmix_status_t (*data_unpack)(const pmix_proc_t *, pmix_data_buffer_t *, void *, int32_t *, pmix_data_type_t);
	const char *(*error_string)(pmix_status_t);
	const char *(*get_version)(void);
};

extern struct library lib;

/* server.c: each does one frame of the keeper. A false return says that the
 * frame makes no sense. */
int server_setup(struct reader *r);
int server_fence_done(struct reader *r);
int server_modex_ask(struct reader *r);
int server_modex_done(struct reader *r);
int server_know(struct reader *r);
void server_quit(void);

/* module.c */
extern pmix_server_module_t module;
void module_begin(const char *nspace);
int module_ours(const char *nspace);
int module_answer(uint32_t id, pmix_status_t status, const unsigned char *data, size_t len);

/* pending is what libpmix waits for an answer to; one of the callbacks is set. */
struct pending {
	struct pending *next;
	uint32_t id;
	pmix_modex_cbfunc_t modex;
	pmix_op_cbfunc_t done;
	pmix_lookup_cbfunc_t lookup;
	pmix_spawn_cbfunc_t spawn;
	void *cookie;
};

uint32_t pend(struct pending p);           /* keeps a copy and names it */
struct pending *pending_take(uint32_t id); /* NULL where there is none; the caller frees */

/* family.c: what ranks ask of other jobs. */
pmix_status_t family_publish(const pmix_proc_t *, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void *);
pmix_status_t family_lookup(const pmix_proc_t *, char **, const pmix_info_t[], size_t, pmix_lookup_cbfunc_t, void *);
pmix_status_t family_unpublish(const pmix_proc_t *, char **, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void *);
pmix_status_t family_spawn(const pmix_proc_t *, const pmix_info_t[], size_t, const pmix_app_t[], size_t, pmix_spawn_cbfunc_t, void *);
pmix_status_t family_connect(const pmix_proc_t[], size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void *);
pmix_status_t family_disconnect(const pmix_proc_t[], size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void *);
pmix_status_t family_fence(const pmix_proc_t[], size_t, char *, size_t, pmix_modex_cbfunc_t, void *);
pmix_status_t family_modex(const pmix_proc_t *, pmix_modex_cbfunc_t, void *);
int family_done(struct reader *r);
int family_spawned(struct reader *r);

void failed(int why, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void *must(void *p);

#endif
