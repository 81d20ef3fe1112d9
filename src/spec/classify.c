/*
 * classify.c - what one exchange proves: spec and evidence -> verdict.
 *
 * Invariants:
 *
 *  1. Nothing that a provider or a network can say raises an error here.
 *  2. Doubt is `unknown` for a send and `inconclusive` for a lookup. Only a whole
 *     answer proves something; a refusal cut short might have been another one.
 *  3. A verdict that shows an object is about an object with our marker, where
 *     the spec says how a marker is read.
 *
 * A send is asked in this order: did a request leave, is there an answer, does a
 * rule of the spec match, is it a success, and last the table of statuses.
 */
#include "postgres.h"

#include "spec/classify.h"

#include "base/canon.h"
#include "base/jsonpath.h"
#include "mb/pg_wchar.h"
#include "spec/answer.h"
#include "spec/wire.h"

/* CURLcodes by their numbers, which are part of libcurl's promise; only
 * transport.c includes curl. */
#define CURL_UNSUPPORTED_PROTOCOL 1 /* behind a request: what came begins otherwise */
#define CURL_WEIRD_SERVER_REPLY 8
#define CURL_OPERATION_TIMEDOUT 28

/* No id of a provider is longer. */
#define LONGEST_ID 255

/* Not all pages were read, and none of them shows our object. */
#define MORE_PAGES "more_pages"

#define NO_MARKER "no_marker"
#define FOREIGN_MARKER "foreign_marker"

/* A longer Retry-After is none that we wait for. */
#define LONGEST_RETRY_AFTER (7 * 24 * 3600)

/* --------------------------------------------------------------- pieces */

static Judgement
judged(OplVerdict verdict, const char *reason)
{
	Judgement j = {.verdict = verdict, .retry_at = OPL_NEVER, .same_generation = true};

	j.reason = pstrdup(reason);
	return j;
}

static bool
is_whole(const Evidence *e)
{
	return e->curl_code == 0 && e->phase == PHASE_DONE && !e->cut;
}

static bool
timed_out(const Evidence *e)
{
	return e->curl_code == CURL_OPERATION_TIMEDOUT;
}

static bool
is_success(const Evidence *e)
{
	return e->http_status >= 200 && e->http_status <= 299;
}

/* http_502, redirect_302 */
static char *
status_reason(int status)
{
	return psprintf("%s_%d", status >= 300 && status <= 399 ? "redirect" : "http",
					status);
}

static OplMoment
retry_at(const Evidence *e)
{
	if (e->retry_after <= 0 || e->finished_at == 0)
		return OPL_NEVER;
	return e->finished_at + Min(e->retry_after, LONGEST_RETRY_AFTER) * OPL_SECOND;
}

/* The first such header of the answer, or NULL. */
static char *
header_value(const Evidence *e, const char *name)
{
	return answer_header(e->headers, e->headers_len, name);
}

/* Does the provider say that it had this answer before? */
static bool
is_replay(const Spec *spec, const Evidence *e)
{
	char *value = spec->replayed ? header_value(e, spec->replayed) : NULL;

	return value != NULL && pg_strcasecmp(value, "true") == 0;
}

/* The id that a header of the answer names, where the spec says so; or NULL. */
static char *
header_id(const Spec *spec, const Evidence *e)
{
	char *id = spec->object.id_header ? header_value(e, spec->object.id_header) : NULL;

	if (id != NULL && spec->object.id_last)
		id = wire_last_segment(id);
	if (id == NULL || *id == '\0' || strlen(id) > LONGEST_ID ||
		!pg_verifymbstr(id, strlen(id), true))
		return NULL;
	return id;
}

/* ------------------------------------------------------------ no answer */

/* What ended an exchange before a byte of the request left. */
static const struct
{
	int         curl_code;
	OplVerdict  verdict;
	const char *reason;
} unsent_codes[] = {
	{1, OPL_V_NOT_SENT, "bad_url"},         /* UNSUPPORTED_PROTOCOL */
	{3, OPL_V_NOT_SENT, "bad_url"},         /* URL_MALFORMAT */
	{5, OPL_V_NOT_SENT, "proxy"},           /* COULDNT_RESOLVE_PROXY */
	{6, OPL_V_NOT_SENT, "dns"},             /* COULDNT_RESOLVE_HOST */
	{7, OPL_V_NOT_SENT, "connect_refused"}, /* COULDNT_CONNECT */
	{35, OPL_V_NOT_SENT, "tls"},            /* SSL_CONNECT_ERROR */
	{56, OPL_V_NOT_SENT, "proxy"},          /* RECV_ERROR: of its CONNECT */
	{58, OPL_V_BLOCKED, "certificate"},     /* SSL_CERTPROBLEM */
	{60, OPL_V_BLOCKED, "certificate"},     /* PEER_FAILED_VERIFICATION */
	{77, OPL_V_BLOCKED, "certificate"},     /* SSL_CACERT_BADFILE */
	{82, OPL_V_BLOCKED, "certificate"},     /* SSL_CRL_BADFILE */
	{83, OPL_V_BLOCKED, "certificate"},     /* SSL_ISSUER_ERROR */
	{90, OPL_V_BLOCKED, "certificate"},     /* SSL_PINNEDPUBKEYNOTMATCH */
	{91, OPL_V_BLOCKED, "certificate"},     /* SSL_INVALIDCERTSTATUS */
	{97, OPL_V_NOT_SENT, "proxy"},          /* PROXY */
};

/* Where it ended, when the code says no more: in time, and out of time. */
static const struct
{
	const char *ended;
	const char *timeout;
} unsent_phases[] = {
	[PHASE_NONE] = {"not_handed_over", "timeout_connect"},
	[PHASE_RESOLVE] = {"dns", "dns"},
	[PHASE_CONNECT] = {"connect_refused", "timeout_connect"},
	[PHASE_TLS] = {"tls", "timeout_tls"},
	[PHASE_SENT] = {"not_sent", "timeout_connect"},
	[PHASE_HEAD] = {"not_sent", "timeout_connect"},
	[PHASE_DONE] = {"not_sent", "timeout_connect"},
};

static Judgement
judge_unsent(const Evidence *e)
{
	if (e->too_late)
		return judged(OPL_V_NOT_SENT, "too_late");
	for (int i = 0; i < lengthof(unsent_codes); i++)
	{
		if (e->curl_code == unsent_codes[i].curl_code)
			return judged(unsent_codes[i].verdict, unsent_codes[i].reason);
	}
	return judged(OPL_V_NOT_SENT, timed_out(e) ? unsent_phases[e->phase].timeout
											   : unsent_phases[e->phase].ended);
}

/* Why there is no whole answer to a request that left. */
static const char *
broken_reason(const Evidence *e)
{
	bool begun = e->http_status >= 200;

	if (timed_out(e))
		return begun ? "timeout_body" : "timeout_first_byte";
	if (e->curl_code == CURL_UNSUPPORTED_PROTOCOL ||
		e->curl_code == CURL_WEIRD_SERVER_REPLY)
		return "not_http";
	if (begun)
		return "truncated";
	switch (e->curl_code)
	{
		case 52: /* GOT_NOTHING */
			return "empty_answer";
		case 55: /* SEND_ERROR */
			return "send_error";
		case 42: /* ABORTED_BY_CALLBACK: it would have left twice */
			return "second_request";
		case 0:
			return "no_answer";
		default:
			return "connection_lost";
	}
}

/* ----------------------------------------------------- reading an object */

/* What one object of the provider is to us. */
typedef struct Sight
{
	OplVerdict  life; /* FOUND, FOUND_PENDING or FOUND_FAILED */
	char       *id;
	int         generation; /* 0: none of ours */
	bool        other_kind; /* than the action makes */
	const char *fault;      /* why it cannot be read or is not ours */
} Sight;

/* Whose it is, by the marker that we wrote on it. */
static void
see_marker(const Spec *spec, const Ours *ours, Jsonb *object, Sight *sight)
{
	char *marker;

	sight->generation = ours->generation;
	if (spec->object.marker == NULL || ours->op_id == NULL)
		return;
	marker = path_text(spec->object.marker, object);
	sight->generation =
		marker == NULL ? 0
					   : canon_marker_generation(marker, ours->name_space, ours->op_id);
	if (sight->generation == 0)
		sight->fault = marker == NULL ? NO_MARKER : FOREIGN_MARKER;
}

/* `id`: what is told beside the object; NULL: nothing is. */
static Sight
see_object(const Spec *spec, const Ours *ours, Jsonb *object, char *id)
{
	Sight sight = {.life = OPL_V_FOUND};

	see_marker(spec, ours, object, &sight);
	sight.other_kind = spec->object.is != NULL && !path_holds(spec->object.is, object);
	if (sight.other_kind && sight.fault == NULL)
		sight.fault = "other_kind";
	sight.id = spec->object.id != NULL ? path_text(spec->object.id, object) : NULL;
	if (sight.id != NULL && strlen(sight.id) > LONGEST_ID)
		sight.id = NULL;
	if (sight.id == NULL)
		sight.id = id;
	if (sight.id == NULL && sight.fault == NULL)
		sight.fault = "no_id";
	if (spec->object.failed != NULL && path_holds(spec->object.failed, object))
		sight.life = OPL_V_FOUND_FAILED;
	else if (spec->object.pending != NULL && path_holds(spec->object.pending, object))
		sight.life = OPL_V_FOUND_PENDING;
	return sight;
}

static Judgement
judge_sight(const Ours *ours, const Sight *sight, OplVerdict verdict, const char *reason)
{
	bool      same = sight->generation == ours->generation;
	Judgement j = judged(verdict, same ? reason : "other_generation");

	j.external_id = sight->id;
	j.same_generation = same;
	return j;
}

/* An object that cannot be believed. What has neither marker nor id, as an error told
 * with a 200, is none. */
static Judgement
judged_unbelieved(const Sight *sight)
{
	bool      unmarked = strcmp(sight->fault, NO_MARKER) == 0;
	Judgement j =
		judged(OPL_V_UNKNOWN, unmarked && sight->id == NULL ? "no_object" : sight->fault);

	j.unmarked = unmarked && sight->id != NULL;
	return j;
}

/* ------------------------------------------------------------- the send */

/* What an object means in the answer to a send. */
static OplVerdict
verdict_of_life(OplVerdict life, int status)
{
	if (life == OPL_V_FOUND_FAILED)
		return life;
	if (life == OPL_V_FOUND_PENDING || status == 202)
		return OPL_V_ACCEPTED;
	return OPL_V_CONFIRMED;
}

static const char *
word_of(OplVerdict verdict)
{
	switch (verdict)
	{
		case OPL_V_FOUND_FAILED:
			return "object_failed";
		case OPL_V_ACCEPTED:
			return "not_final";
		default:
			return "ok";
	}
}

/* 2xx without a body: a header may name the object. There is none here that could
 * show our marker. */
static Judgement
judge_bare(const Evidence *e, char *id)
{
	Judgement j;

	if (e->http_status == 202)
		j = judged(OPL_V_ACCEPTED, "not_final");
	else
		j = judged(id ? OPL_V_CONFIRMED : OPL_V_UNKNOWN, id ? "ok" : "empty_body");
	j.external_id = id;
	return j;
}

/* 2xx: does the action's success rule hold? */
static Judgement
judge_success(const Spec *spec, const Ours *ours, const Evidence *e,
			  const AnswerBody *body)
{
	Jsonb     *object = body->json;
	Sight      sight;
	OplVerdict verdict;

	if (spec->success_if != NULL && body->json == NULL)
		return judged(OPL_V_UNKNOWN, body->fault);
	if (spec->success_if != NULL && !path_holds(spec->success_if, body->json))
		return judged(OPL_V_UNKNOWN, "success_rule");
	if (!spec->has_object)
		return judged(OPL_V_CONFIRMED, status_reason(e->http_status));
	if (body->empty)
		return judge_bare(e, header_id(spec, e));
	if (body->json == NULL)
		return judged(OPL_V_UNKNOWN, body->fault);
	if (spec->success_object != NULL)
		object = path_first(spec->success_object, body->json);
	if (object == NULL)
		return judged(OPL_V_UNKNOWN, "no_object");
	sight = see_object(spec, ours, object, header_id(spec, e));
	if (sight.fault != NULL)
		return judged_unbelieved(&sight);
	verdict = verdict_of_life(sight.life, e->http_status);
	return judge_sight(ours, &sight, verdict, word_of(verdict));
}

static bool
has_status(const SpecRule *rule, int status)
{
	for (int i = 0; i < rule->nstatus; i++)
	{
		if (rule->status[i] == status)
			return true;
	}
	return rule->nstatus == 0;
}

static bool
has_header(const SpecRule *rule, const Evidence *e)
{
	char *value;

	if (rule->header == NULL)
		return true;
	value = header_value(e, rule->header);
	return value != NULL &&
		   (rule->value == NULL || pg_strcasecmp(value, rule->value) == 0);
}

/* A rule that calls an answer a success cannot make another's object ours. */
static Judgement
judge_by_rule(const Spec *spec, const Ours *ours, const SpecRule *rule, const Evidence *e,
			  const AnswerBody *body)
{
	Judgement j =
		judged(rule->then, rule->reason ? rule->reason : status_reason(e->http_status));
	Jsonb *object = body->json;
	Sight  sight;

	j.keyed = rule->keyed;
	if (rule->then != OPL_V_CONFIRMED && rule->then != OPL_V_ACCEPTED)
		return j;
	if (body->empty)
		j.external_id = header_id(spec, e);
	if (object != NULL && spec->success_object != NULL)
		object = path_first(spec->success_object, object);
	if (object == NULL || !spec->has_object)
		return j;
	sight = see_object(spec, ours, object, header_id(spec, e));
	if (sight.fault != NULL && strcmp(sight.fault, FOREIGN_MARKER) == 0)
		return judged(OPL_V_UNKNOWN, sight.fault);
	if (sight.fault == NULL)
	{
		j.external_id = sight.id;
		j.same_generation = sight.generation == ours->generation;
	}
	return j;
}

/* The first rule that matches. A rule that asks for a body which was cut, or cannot be
 * decoded, might have matched: then nothing that comes behind it is known. */
static bool
ask_rules(const Spec *spec, const Ours *ours, const Evidence *e, const AnswerBody *body,
		  Judgement *answer)
{
	for (int i = 0; i < spec->nrules; i++)
	{
		const SpecRule *rule = &spec->rules[i];

		if (!has_status(rule, e->http_status) || !has_header(rule, e))
			continue;
		if (rule->body != NULL && body->hidden)
		{
			*answer = judged(OPL_V_UNKNOWN, body->fault);
			return true;
		}
		if (rule->body != NULL &&
			(body->json == NULL || !path_holds(rule->body, body->json)))
			continue;
		*answer = judge_by_rule(spec, ours, rule, e, body);
		return true;
	}
	return false;
}

/* Statuses that no rule of the spec knows better. */
static const struct
{
	int        from, to;
	OplVerdict verdict;
} statuses[] = {
	{307, 308, OPL_V_BLOCKED}, /* elsewhere, and we do not follow */
	{401, 401, OPL_V_BLOCKED},       {403, 403, OPL_V_BLOCKED},
	{407, 407, OPL_V_BLOCKED}, /* only a proxy says this */
	{408, 409, OPL_V_UNKNOWN}, /* perhaps after an effect */
	{423, 423, OPL_V_UNKNOWN},       {425, 425, OPL_V_NOT_PROCESSED},
	{429, 429, OPL_V_NOT_PROCESSED}, {400, 499, OPL_V_REJECTED}, /* all others of them */
};

static Judgement
judge_status(const Evidence *e, bool replay)
{
	if (replay && e->http_status >= 500)
		return judged(OPL_V_STORED_ERROR, psprintf("stored_http_%d", e->http_status));
	for (int i = 0; i < lengthof(statuses); i++)
	{
		if (e->http_status >= statuses[i].from && e->http_status <= statuses[i].to)
			return judged(statuses[i].verdict, status_reason(e->http_status));
	}
	return judged(OPL_V_UNKNOWN, status_reason(e->http_status));
}

static Judgement
judge_answer(const Spec *spec, const Ours *ours, const Evidence *e)
{
	bool       replay = is_replay(spec, e);
	AnswerBody body = answer_read(e, spec->response_limit);
	Judgement  j;

	if (!ask_rules(spec, ours, e, &body, &j))
		j = is_success(e) ? judge_success(spec, ours, e, &body) : judge_status(e, replay);
	j.keyed = j.keyed || replay;
	return j;
}

Judgement
classify_send(const Spec *spec, const Ours *ours, const Evidence *e)
{
	Judgement j;

	if (!e->sent)
		j = judge_unsent(e);
	else if (e->http_status < 200 || !(e->cut || is_whole(e)))
		j = judged(OPL_V_UNKNOWN, broken_reason(e));
	else
		j = judge_answer(spec, ours, e);
	j.retry_at = retry_at(e);
	return j;
}

/* ----------------------------------------------------------- the lookup */

/* What the objects of a page that are ours amount to. */
typedef struct Tally
{
	Sight living;   /* id NULL: none */
	Sight failed;   /* of this generation; id NULL: none */
	bool  items;    /* there are any, */
	bool  marked;   /* and one with a marker, whosesoever */
	bool  two;      /* living objects */
	bool  nameless; /* ours, but without an id */
	bool  odd;      /* our marker on an object of another kind */
	List *ours;     /* each Sight with an id, of whatever generation */
} Tally;

/* A list may show an object twice, as pages shift. */
static void
keep_sight(Tally *tally, const Sight *sight)
{
	Sight    *copy;
	ListCell *cell;

	foreach (cell, tally->ours)
	{
		if (strcmp(((Sight *) lfirst(cell))->id, sight->id) == 0)
			return;
	}
	copy = palloc(sizeof(Sight));
	*copy = *sight;
	tally->ours = lappend(tally->ours, copy);
}

static void
count_object(const Ours *ours, const Sight *sight, Tally *tally)
{
	tally->items = true;
	if (sight->fault == NULL || strcmp(sight->fault, NO_MARKER) != 0)
		tally->marked = true;
	if (sight->generation == 0)
		return;
	if (sight->other_kind)
		tally->odd = true;
	else if (sight->id == NULL)
		tally->nameless = true;
	else
		keep_sight(tally, sight);
	if (sight->other_kind || sight->id == NULL)
		return;
	if (sight->life == OPL_V_FOUND_FAILED)
	{
		if (sight->generation == ours->generation && tally->failed.id == NULL)
			tally->failed = *sight;
	}
	else if (tally->living.id == NULL)
		tally->living = *sight;
	else if (strcmp(tally->living.id, sight->id) != 0)
		tally->two = true;
}

/* What people look for at the provider. */
static char *
write_objects(const Tally *tally)
{
	StringInfoData out;
	ListCell      *cell;

	initStringInfo(&out);
	foreach (cell, tally->ours)
	{
		const Sight *sight = lfirst(cell);

		appendStringInfoString(&out, out.len == 0 ? "[{\"id\": " : ", {\"id\": ");
		canon_json_string(&out, sight->id, strlen(sight->id));
		appendStringInfo(&out, ", \"state\": \"%s\", \"generation\": %d}",
						 sight->life == OPL_V_FOUND           ? "done"
						 : sight->life == OPL_V_FOUND_PENDING ? "pending"
															  : "failed",
						 sight->generation);
	}
	appendStringInfoChar(&out, ']');
	return out.data;
}

static const char *
life_word(OplVerdict life)
{
	return life == OPL_V_FOUND           ? "found"
		   : life == OPL_V_FOUND_PENDING ? "not_final"
										 : "object_failed";
}

static Judgement
judge_tally(const Ours *ours, const Tally *tally, bool more)
{
	Judgement absent = judged(OPL_V_ABSENT, "absent");

	if (tally->two)
		return judge_sight(ours, &tally->living, OPL_V_CONTRADICTION, "two_objects");
	if (tally->living.id != NULL && tally->living.generation != ours->generation)
		return judge_sight(ours, &tally->living, OPL_V_CONTRADICTION, NULL);
	if (tally->living.id != NULL)
		return judge_sight(ours, &tally->living, tally->living.life,
						   life_word(tally->living.life));
	if (tally->nameless || tally->odd)
		return judged(OPL_V_INCONCLUSIVE, tally->odd ? "other_kind" : "no_id");
	if (more)
		return judged(OPL_V_INCONCLUSIVE, MORE_PAGES);
	if (tally->failed.id != NULL)
		return judge_sight(ours, &tally->failed, OPL_V_FOUND_FAILED,
						   life_word(OPL_V_FOUND_FAILED));
	absent.unmarked = tally->items && !tally->marked;
	if (absent.unmarked)
		absent.reason = "unmarked";
	return absent;
}

/* Does the provider have more than these pages? */
static bool
has_more(const Spec *spec, Jsonb *page)
{
	if (spec->lookup_more != NULL)
		return path_holds(spec->lookup_more, page);
	for (int i = 0; i < spec->ncursors; i++)
	{
		if (path_text(spec->cursors[i], page) == NULL)
			return false;
	}
	return spec->ncursors > 0;
}

static Judgement
judge_list(const Spec *spec, const Ours *ours, Jsonb *page, Search *search)
{
	Jsonb    *list = path_first(spec->lookup_list, page);
	Jsonb    *items;
	Judgement j;

	/* An error told with a 200 has no list, and an absent list is not empty. */
	if (list == NULL || !JB_ROOT_IS_ARRAY(list) || JB_ROOT_IS_SCALAR(list))
		return judged(OPL_V_INCONCLUSIVE, "no_list");
	if (search->tally == NULL)
		search->tally = palloc0(sizeof(Tally));
	items = path_all(spec->lookup_items, page);
	for (uint32 i = 0; i < JB_ROOT_COUNT(items); i++)
	{
		JsonbValue *item = getIthJsonbValueFromContainer(&items->root, i);
		Sight       sight = see_object(spec, ours, JsonbValueToJsonb(item), NULL);

		count_object(ours, &sight, search->tally);
	}
	search->pages++;
	search->seen += JB_ROOT_COUNT(items);
	j = judge_tally(ours, search->tally, has_more(spec, page));
	if (list_length(search->tally->ours) > 1 || j.verdict == OPL_V_CONTRADICTION)
		j.objects = write_objects(search->tally);
	if (j.verdict == OPL_V_INCONCLUSIVE && strcmp(j.reason, MORE_PAGES) == 0)
		search->before = page;
	return j;
}

/* `id`: as see_object() has it. */
static Judgement
judge_one(const Spec *spec, const Ours *ours, Jsonb *body, char *id)
{
	Jsonb *object = body;
	Tally  tally = {0};
	Sight  sight;

	if (spec->success_object != NULL)
		object = path_first(spec->success_object, body);
	if (!spec->has_object || object == NULL)
		return judged(OPL_V_INCONCLUSIVE, "no_object");
	sight = see_object(spec, ours, object, id);
	if (sight.fault != NULL)
		return judged(OPL_V_INCONCLUSIVE, sight.fault);
	count_object(ours, &sight, &tally);
	if (tally.living.id == NULL && tally.failed.id == NULL)
		return judged(OPL_V_INCONCLUSIVE, "other_generation");
	return judge_tally(ours, &tally, false);
}

/* The body that an exchange brought which asked; NULL, and why there is none. */
static Judgement
judge_unread(const Spec *spec, const Evidence *e, Jsonb **body)
{
	AnswerBody answer;

	*body = NULL;
	if (!e->sent)
		return judge_unsent(e);
	if (e->http_status < 200 || !(e->cut || is_whole(e)))
		return judged(OPL_V_UNKNOWN, broken_reason(e));
	if (!is_success(e))
		return judged(OPL_V_UNKNOWN, status_reason(e->http_status));
	answer = answer_read(e, spec->response_limit);
	*body = answer.json;
	return judged(OPL_V_UNKNOWN, answer.json ? "ok" : answer.fault);
}

/* Whatever went wrong with asking says nothing about the operation. */
static Judgement
asked(Judgement j, const Evidence *e)
{
	if (j.verdict == OPL_V_UNKNOWN || j.verdict == OPL_V_NOT_SENT ||
		j.verdict == OPL_V_BLOCKED)
		j.verdict = OPL_V_INCONCLUSIVE;
	j.retry_at = retry_at(e);
	return j;
}

Judgement
classify_page(const Spec *spec, const Ours *ours, const Evidence *e, Search *search)
{
	Jsonb    *body;
	Judgement j = judge_unread(spec, e, &body);

	search->before = NULL;
	if (!spec->promises.recipe)
		j = judged(OPL_V_UNKNOWN, "no_lookup");
	else if (body != NULL)
		j = spec->lookup_one ? judge_one(spec, ours, body, header_id(spec, e))
							 : judge_list(spec, ours, body, search);
	return asked(j, e);
}

Judgement
classify_lookup(const Spec *spec, const Ours *ours, const Evidence *e)
{
	Search search = {0};

	return classify_page(spec, ours, e, &search);
}

Judgement
classify_poll(const Spec *spec, const Ours *ours, const Evidence *e)
{
	Jsonb    *body;
	Judgement j = judge_unread(spec, e, &body);
	char     *id = header_id(spec, e);

	/* It was asked for by that name, which only the answer to the send had. */
	if (id == NULL && spec->object.id_header != NULL)
		id = ours->external_id;
	return asked(body != NULL ? judge_one(spec, ours, body, id) : j, e);
}

Judgement
classify_object(const Spec *spec, const Ours *ours, Jsonb *object, const char *known_id)
{
	Sight sight = see_object(spec, ours, object, NULL);

	if (known_id != NULL && sight.id != NULL && strcmp(known_id, sight.id) == 0 &&
		sight.fault != NULL && strcmp(sight.fault, NO_MARKER) == 0)
	{
		sight.fault = NULL;
		sight.generation = ours->generation;
	}
	if (sight.fault != NULL)
		return judged(OPL_V_INCONCLUSIVE, sight.fault);
	return judge_sight(ours, &sight, sight.life, life_word(sight.life));
}
