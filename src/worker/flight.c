/*
 * flight.c - the exchanges that are in hand.
 *
 *	  prepared --commit--> on the wire --> answered --commit--> forgotten
 *	      `--- no commit: discarded
 *
 * An exchange is in exactly one of the three lists and holds its provider's
 * place from the claim until its evidence is committed: an answer that cannot be
 * stored keeps us from asking for more.
 */
#include "postgres.h"

#include "worker/flight.h"

#include "base/clock.h"
#include "common/hashfn.h"
#include "base/errors.h"
#include "store/finding.h"
#include "spec/answer.h"
#include "spec/freeze.h"
#include "base/guc.h"
#include "worker/pace.h"
#include "wire/transport.h"
#include "worker/trouble.h"
#include "utils/memutils.h"
#include "spec/wire.h"

/* An answer whose row a session holds is tried again after this. */
#define KEEP (20 * INT64CONST(1000))

static dlist_head prepared = DLIST_STATIC_INIT(prepared);
static dlist_head on_wire = DLIST_STATIC_INIT(on_wire);
static dlist_head answered = DLIST_STATIC_INIT(answered);
static int        n_on_wire = 0;
static int        n_answered = 0;
static bool       abandoned = false; /* nothing goes out any more */

/* On the wire or answered, by op id: a claim asks for each of its operations. */
#define CHAINS 256
static dlist_head chains[CHAINS];

static dlist_head *
chain_of(const char *op_id)
{
	return &chains[hash_bytes((const unsigned char *) op_id, strlen(op_id)) % CHAINS];
}

/* ----------------------------------------------------------------- prepare */

static const char *
dup_or_null(const char *text)
{
	return text ? pstrdup(text) : NULL;
}

static const char **
with_secret(char *const *headers, int n, char *secret)
{
	const char **lines = palloc(sizeof(char *) * (n + 2));
	int          count = 0;

	for (int i = 0; i < n; i++)
		lines[count++] = pstrdup(headers[i]);
	if (secret)
		lines[count++] = secret;
	lines[count] = NULL;
	return lines;
}

/* A header that was changed in the table is looked at again before it leaves. The
 * fault names it, and never its value: what is no name may be one. */
static const char *
fault_of(const char **lines)
{
	for (int i = 0; lines[i]; i++)
	{
		const char *fault = profile_header_fault(lines[i]);
		const char *name;

		if (!fault)
			continue;
		name = pnstrdup(lines[i], strcspn(lines[i], ":"));
		if (strchr(lines[i], ':') && !wire_name_fault(name))
			return psprintf("header \"%s\" %s", name, fault);
		return psprintf("header number %d %s", i + 1, fault);
	}
	return NULL;
}

static void
put_send(Exchange *exchange, const LedgerRequest *frozen, char *secret)
{
	Request *out = &exchange->request;

	out->method = pstrdup(frozen->method);
	out->url = pstrdup(frozen->url);
	out->headers = with_secret(frozen->headers, frozen->nheaders, secret);
	out->body_len = frozen->body_len;
	if (frozen->body)
	{
		char *body = palloc(frozen->body_len + 1);

		memcpy(body, frozen->body, frozen->body_len);
		out->body = body;
	}
}

static void
put_lookup(Exchange *exchange, const LedgerOperation *operation,
		   const LedgerRequest *frozen, char *secret)
{
	Request *out = &exchange->request;
	Subject  subject = finding_subject(operation, frozen);
	Frozen   lookup;

	exchange->poll = finding_polls(exchange->action->spec, operation, exchange->state);
	if (exchange->poll)
		exchange->external_id = pstrdup(operation->external_id);
	(exchange->poll ? profile_poll : profile_lookup)(exchange->action->spec, &subject,
													 &lookup);
	exchange->first_url = lookup.url;
	out->method = lookup.method;
	out->url = lookup.url;
	out->headers = with_secret(lookup.headers, lookup.nheaders, secret);
}

/* What we know ourselves, without an answer to classify. */
static void
put_judgement(Exchange *exchange, OplVerdict verdict, const char *reason)
{
	exchange->judgement.verdict = verdict;
	exchange->judgement.reason = MemoryContextStrdup(exchange->context, reason);
	exchange->judgement.retry_at = OPL_NEVER;
	exchange->judgement.same_generation = true;
	if (exchange->started_at == 0)
		exchange->started_at = exchange->evidence.started_at;
	exchange->judged = true;
}

/* The wire stands still: where no byte left, none will. */
static void
put_abandoned(Exchange *exchange)
{
	exchange->unseen = exchange->evidence.sent;
	if (exchange->step == OPL_STEP_LOOKUP)
		put_judgement(exchange, OPL_V_INCONCLUSIVE, "lost");
	else if (exchange->evidence.sent)
		put_judgement(exchange, OPL_V_UNKNOWN, "lost");
	else
		put_judgement(exchange, OPL_V_NOT_SENT, "stopped");
}

/* Never handed to the wire; the next turn settles it. */
static void
answer_unsent(Exchange *exchange, OplVerdict verdict, const char *reason, const char *why)
{
	exchange->evidence.started_at = exchange->evidence.finished_at = clock_now();
	strlcpy(exchange->evidence.error, why, sizeof(exchange->evidence.error));
	put_judgement(exchange,
				  exchange->step == OPL_STEP_SEND ? verdict : OPL_V_INCONCLUSIVE, reason);
}

static void
put_limits(Exchange *exchange, int64 now)
{
	const Spec *spec = exchange->action->spec;
	Request    *out = &exchange->request;

	out->ca_file = dup_or_null(spec->ca_file);
	out->proxy = dup_or_null(spec->proxy);
	out->connect_timeout = spec->connect_timeout;
	out->total_timeout = spec->promises.timeout;
	out->response_limit = spec->response_limit;
	out->send_before =
		exchange->step == OPL_STEP_SEND ? now + spec->promises.margin : PG_INT64_MAX;
}

/* The header with the secret is made once a turn and action: reading the file
 * cost a tenth of a turn. A file that is replaced counts from the next turn on. */
static const Action *auth_of = NULL;
static char         *auth = NULL;

static void
forget_auth(void)
{
	if (auth)
		pfree(auth);
	auth_of = NULL;
	auth = NULL;
}

static char *
auth_header(const Action *action)
{
	char *header;

	if (auth_of != action)
	{
		header = profile_auth_header(action->spec, opl_secret_dir);
		forget_auth();
		auth = header ? MemoryContextStrdup(TopMemoryContext, header) : NULL;
		auth_of = action;
	}
	return auth ? pstrdup(auth) : NULL;
}

/* What of the header is secret: its value, or what follows the scheme in it. */
static const char *
credential_of(const Spec *spec, const char *header)
{
	const char *before = header ? strchr(header, ' ') : NULL;

	if (before && spec->auth != AUTH_HEADER)
		before = strchr(before + 1, ' ');
	return before ? before + 1 : NULL;
}

/* The secret joins the frozen headers here and nowhere else. */
static void
render(Exchange *exchange, const LedgerOperation *operation, const LedgerRequest *request)
{
	char *secret = auth_header(exchange->action);

	exchange->credential = credential_of(exchange->action->spec, secret);

	if (exchange->step == OPL_STEP_SEND)
		put_send(exchange, request, secret);
	else
		put_lookup(exchange, operation, request, secret);
}

/* What cannot be rendered is not sent, and is no reason to fail the turn: no
 * secret, or a lookup by an external id that is not known. */
static void
render_or_block(Exchange *exchange, const LedgerOperation *operation,
				const LedgerRequest *request)
{
	PG_TRY();
	{
		render(exchange, operation, request);
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(exchange->context);
		error = CopyErrorData();
		FlushErrorState();
		answer_unsent(exchange, OPL_V_BLOCKED,
					  error->sqlerrcode == OPL_ERR_SECRET ? "secret" : "request",
					  error->message);
	}
	PG_END_TRY();
}

Exchange *
flight_prepare(const LedgerOperation *operation, const LedgerRequest *request,
			   Action *action, OplStep step, const OplDecision *decision, int64 now)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "op_ledger exchange",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Exchange     *exchange = palloc0(sizeof(Exchange));
	const char   *fault;

	exchange->context = context;
	exchange->op_id = pstrdup(operation->op_id);
	exchange->provider = pstrdup(operation->provider);
	exchange->action = action;
	exchange->step = step;
	exchange->n = decision->after.attempts;
	exchange->generation = operation->op.generation;
	exchange->name_space = request->name_space ? pstrdup(request->name_space) : NULL;
	exchange->state = decision->after.state;
	exchange->not_after = operation->op.not_after;
	action_hold(action);
	pace_take(exchange->provider, step);
	dlist_push_tail(&prepared, &exchange->node);

	put_limits(exchange, now);
	render_or_block(exchange, operation, request);
	fault = exchange->judged ? NULL : fault_of(exchange->request.headers);
	if (fault)
		answer_unsent(exchange, OPL_V_NOT_SENT, "header", fault);
	MemoryContextSwitchTo(old);
	return exchange;
}

static void
forget(Exchange *exchange)
{
	pace_give(exchange->provider, exchange->step);
	action_release(exchange->action);
	transport_forget(&exchange->evidence);
	MemoryContextDelete(exchange->context);
}

void
flight_discard(void)
{
	forget_auth();
	while (!dlist_is_empty(&prepared))
		forget(dlist_container(Exchange, node, dlist_pop_head_node(&prepared)));
}

static void
withhold(Exchange *exchange)
{
	exchange->evidence.started_at = exchange->evidence.finished_at = clock_now();
	put_abandoned(exchange);
}

static void
put_answered(Exchange *exchange)
{
	exchange->answered_at = clock_steady();
	dlist_push_tail(&answered, &exchange->node);
	n_answered++;
}

void
flight_depart(bool send)
{
	forget_auth();
	while (!dlist_is_empty(&prepared))
	{
		Exchange *exchange =
			dlist_container(Exchange, node, dlist_pop_head_node(&prepared));

		dlist_push_head(chain_of(exchange->op_id), &exchange->in_chain);
		if (!exchange->judged && !send)
			withhold(exchange);
		if (exchange->judged)
		{
			put_answered(exchange);
			continue;
		}
		dlist_push_tail(&on_wire, &exchange->node);
		n_on_wire++;
		transport_send(&exchange->request, &exchange->evidence, exchange);
	}
}

/* ----------------------------------------------------------------- answers */

/* Some servers show a request in their answer. A secret is in no table: it is
 * made unreadable before anything looks at the evidence. Shorter ones could be
 * any word. */
#define CREDENTIAL_MIN 8

static void
blot_out(char *bytes, size_t len, const char *word)
{
	size_t size = strlen(word);
	char  *found;

	while (bytes && (found = memmem(bytes, len, word, size)) != NULL)
	{
		memset(found, '*', size);
		len -= found + size - bytes;
		bytes = found + size;
	}
}

static void
hide_credential(Exchange *exchange)
{
	Evidence   *evidence = &exchange->evidence;
	const char *word = exchange->credential;

	if (!word || strlen(word) < CREDENTIAL_MIN)
		return;
	blot_out(evidence->headers, evidence->headers_len, word);
	blot_out(evidence->body, evidence->body_len, word);
	blot_out(evidence->error, strlen(evidence->error), word);
}

void
flight_collect(void)
{
	Exchange *exchange;

	transport_run();
	while ((exchange = transport_next()) != NULL)
	{
		hide_credential(exchange);
		dlist_delete(&exchange->node);
		n_on_wire--;
		put_answered(exchange);
	}
}

/* Packed bytes show no secret, but to whoever unpacks them: such an answer is kept as it
 * reads, without the secret, and its headers do not call it packed. */
static void
hide_packed_credential(Exchange *exchange)
{
	Evidence   *evidence = &exchange->evidence;
	const char *word = exchange->credential;
	Plain       plain;
	char       *copy = NULL;

	if (!word || strlen(word) < CREDENTIAL_MIN)
		return;
	plain = answer_plain(evidence->headers, evidence->headers_len, evidence->body,
						 evidence->body_len, exchange->request.response_limit);
	if (!plain.is_copy)
		return;
	if (memmem(plain.data, plain.len, word, strlen(word)) != NULL)
	{
		copy = malloc(plain.len + 1); /* the transport frees it */
		if (copy == NULL)
			ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
		memcpy(copy, plain.data, plain.len);
		copy[plain.len] = '\0';
		blot_out(copy, plain.len, word);
		free(evidence->body);
		evidence->body = copy;
		evidence->body_len = plain.len;
		evidence->cut = evidence->cut || plain.cut;
		answer_unpack_headers(evidence->headers, evidence->headers_len);
	}
	pfree(unconstify(char *, plain.data));
}

static Judgement
classify(Exchange *exchange, const Ours *ours)
{
	const Spec *spec = exchange->action->spec;

	if (exchange->step == OPL_STEP_SEND)
		return classify_send(spec, ours, &exchange->evidence);
	if (exchange->poll)
		return classify_poll(spec, ours, &exchange->evidence);
	return classify_page(spec, ours, &exchange->evidence, &exchange->search);
}

/* Evidence of all pages is kept as one, behind each other. */
static void
keep_page(Exchange *exchange)
{
	const Evidence *e = &exchange->evidence;

	if (!exchange->headers)
	{
		exchange->headers = makeStringInfo();
		exchange->bodies = makeStringInfo();
	}
	appendBinaryStringInfo(exchange->headers, e->headers, e->headers_len);
	appendBinaryStringInfo(exchange->bodies, e->body, e->body_len);
	appendStringInfoChar(exchange->bodies, '\n');
}

/* The next page of a lookup, which goes out at once: nothing needs to be stored
 * for that. False: this was the last, or the last that we read. */
static bool
turn_page(Exchange *exchange)
{
	const Spec *spec = exchange->action->spec;
	Search     *search = &exchange->search;
	char       *url = NULL;

	if (abandoned || !search->before || search->pages >= spec->lookup_pages)
		return false;
	if (spec->lookup_next)
		url = profile_next_page(spec, exchange->first_url, search->before,
								search->pages + 1, search->seen);
	if (!url || strcmp(url, exchange->request.url) == 0)
		return false;
	keep_page(exchange);
	exchange->request.url = url;
	transport_forget(&exchange->evidence);
	memset(&exchange->evidence, 0, sizeof(Evidence));
	dlist_delete(&exchange->node);
	dlist_push_tail(&on_wire, &exchange->node);
	n_answered--;
	n_on_wire++;
	transport_send(&exchange->request, &exchange->evidence, exchange);
	return true;
}

/* False: a part of the answer is still to come. */
static bool
judge(Exchange *exchange)
{
	MemoryContext old = MemoryContextSwitchTo(exchange->context);
	Ours          ours = {exchange->op_id, exchange->generation, exchange->name_space,
						  exchange->external_id};

	if (exchange->started_at == 0)
		exchange->started_at = exchange->evidence.started_at;
	hide_packed_credential(exchange);
	exchange->judgement = classify(exchange, &ours);
	exchange->judged = !turn_page(exchange);
	MemoryContextSwitchTo(old);
	return exchange->judged;
}

static bool
is_kept(const Exchange *exchange, int64 now)
{
	return exchange->retry_at > now;
}

static bool
among(const char *op_id, Exchange **answers, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (strcmp(answers[i]->op_id, op_id) == 0)
			return true;
	}
	return false;
}

int
flight_answers(Exchange **answers, int max, int64 now)
{
	dlist_mutable_iter iter;
	int                n = 0;

	dlist_foreach_modify(iter, &answered)
	{
		Exchange *exchange = dlist_container(Exchange, node, iter.cur);

		if (n == max)
			break;
		if (is_kept(exchange, now) || trouble_avoids(exchange->op_id, now) ||
			among(exchange->op_id, answers, n))
			continue;
		if (exchange->judged || judge(exchange))
			answers[n++] = exchange;
	}
	return n;
}

void
flight_settled(Exchange *exchange)
{
	dlist_delete(&exchange->node);
	dlist_delete(&exchange->in_chain);
	n_answered--;
	forget(exchange);
}

bool
flight_has(const char *op_id, int n)
{
	dlist_iter iter;

	dlist_foreach(iter, chain_of(op_id))
	{
		Exchange *exchange = dlist_container(Exchange, in_chain, iter.cur);

		if (exchange->n == n && strcmp(exchange->op_id, op_id) == 0)
			return true;
	}
	return false;
}

int
flight_on_wire(void)
{
	return n_on_wire;
}

int
flight_in_hand(void)
{
	return n_on_wire + n_answered;
}

int
flight_ready(int64 now, int64 *first)
{
	dlist_iter iter;
	int        n = 0;

	*first = PG_INT64_MAX;
	dlist_foreach(iter, &answered)
	{
		Exchange *exchange = dlist_container(Exchange, node, iter.cur);
		int64     at = exchange->answered_at;

		if (trouble_avoids(exchange->op_id, now))
			continue;
		if (is_kept(exchange, now))
			at = exchange->retry_at;
		else
			n++;
		*first = Min(*first, at);
	}
	return n;
}

void
flight_keep(Exchange *exchange, int64 now)
{
	exchange->retry_at = now + KEEP;
}

int64
flight_oldest_kept(void)
{
	int64      oldest = 0;
	dlist_iter iter;

	dlist_foreach(iter, &answered)
	{
		Exchange *exchange = dlist_container(Exchange, node, iter.cur);
		int64     at = exchange->answered_at;

		if (exchange->retry_at != 0 && (oldest == 0 || at < oldest))
			oldest = at;
	}
	return oldest;
}

void
flight_abandon(void)
{
	abandoned = true;
	while (!dlist_is_empty(&on_wire))
	{
		Exchange *exchange =
			dlist_container(Exchange, node, dlist_pop_head_node(&on_wire));

		exchange->evidence.finished_at = clock_now();
		put_abandoned(exchange);
		n_on_wire--;
		put_answered(exchange);
	}
}
