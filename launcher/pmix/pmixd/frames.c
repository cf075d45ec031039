/* Frames: a length and a kind, then numbers and blobs, all big-endian. */
#include <stdlib.h>
#include <string.h>

#include "pmixd.h"

static void put_u32(unsigned char *p, uint32_t v)
{
	p[0] = v >> 24;
	p[1] = v >> 16;
	p[2] = v >> 8;
	p[3] = v;
}

static void grow(struct event *e, size_t more)
{
	if (e->len + more <= e->cap)
		return;
	e->cap = 2 * e->cap + more;
	e->data = must(realloc(e->data, e->cap));
}

struct event *event_new(int kind)
{
	struct event *e = must(calloc(1, sizeof *e));
	e->cap = 64;
	e->data = must(malloc(e->cap));
	e->data[HEADER] = kind;
	e->len = HEADER + 1;
	put_u32(e->data, 1);
	return e;
}

/* Every field keeps the length at the front right. */
static void seal(struct event *e)
{
	put_u32(e->data, e->len - HEADER);
}

void event_u32(struct event *e, uint32_t v)
{
	grow(e, 4);
	put_u32(e->data + e->len, v);
	e->len += 4;
	seal(e);
}

void event_blob(struct event *e, const void *data, size_t len)
{
	event_u32(e, len);
	if (len == 0)
		return;
	grow(e, len);
	memcpy(e->data + e->len, data, len);
	e->len += len;
	seal(e);
}

void event_text(struct event *e, const char *s)
{
	if (!s)
		s = "";
	event_blob(e, s, strlen(s));
}

uint32_t read_u32(struct reader *r)
{
	if (!r->ok || r->end - r->at < 4) {
		r->ok = 0;
		return 0;
	}
	const unsigned char *p = r->at;
	r->at += 4;
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

const unsigned char *read_blob(struct reader *r, size_t *len)
{
	uint32_t n = read_u32(r);
	if (!r->ok || (size_t)(r->end - r->at) < n) {
		r->ok = 0;
		*len = 0;
		return r->at;
	}
	const unsigned char *p = r->at;
	r->at += n;
	*len = n;
	return p;
}

char *read_text(struct reader *r)
{
	size_t len;
	const unsigned char *p = read_blob(r, &len);
	char *s = must(malloc(len + 1));
	memcpy(s, p, len);
	s[len] = 0;
	return s;
}
