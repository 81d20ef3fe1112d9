/*
 * webhook.c - op_webhook: the provider tells by itself.
 *
 *	  genuine? -> whose object? -> judge -> decide -> store
 *
 * What is told takes the door that all evidence takes; it may come before the
 * answer, twice, days later and in any order. It is no exchange of ours, so it
 * fences none: its row in op_attempt counts down from -1.
 *
 * Locks as sessions do: the op_operation row first, then its row of the agenda
 * is deleted and inserted, never updated.
 */
#include "postgres.h"

#include "base/compat.h"
#include "spec/answer.h"
#include "store/actions.h"
#include "store/agenda.h"
#include "store/attempt.h"
#include "store/config.h"
#include "base/errors.h"
#include "store/finding.h"
#include "fmgr.h"
#include "base/guc.h"
#include "store/operation.h"
#include "mb/pg_wchar.h"
#include "session/receipt.h"
#include "base/jsonpath.h"
#include "spec/secret.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "base/wake.h"

PG_FUNCTION_INFO_V1(op_webhook);

#define LONGEST_WORD 255

/* What was delivered, and how it is read. */
typedef struct Delivery
{
	Ledger      ledger;
	char       *provider;
	Jsonb      *headers;
	bytea      *body;
	Action    **actions; /* of the provider */
	int         nactions;
	const Spec *spec; /* of one of them: provider-level fields are all the same */
	Jsonb      *event;
	Jsonb      *object;
	bool        packed; /* it cannot be read without the headers that say how */
	TimestampTz now;
} Delivery;

/* ----------------------------------------------------------------- genuine */

static _Noreturn void
refuse(const Delivery *d, const char *what, const char *hint)
{
	ereport(ERROR, (errcode(OPL_ERR_WEBHOOK),
					errmsg("webhook of provider \"%s\" %s", d->provider, what),
					errhint("%s", hint)));
}

static void
read_arguments(FunctionCallInfo fcinfo, Delivery *d)
{
	static const char *const names[] = {"provider", "headers", "body"};

	for (int i = 0; i < lengthof(names); i++)
	{
		if (PG_ARGISNULL(i))
			ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
							errmsg("argument \"%s\" of op_webhook() is NULL", names[i]),
							errhint("Pass the headers as {\"Name\": \"value\"} and the "
									"bytes of the body as they came.")));
	}
	d->provider = text_to_cstring(PG_GETARG_TEXT_PP(0));
	d->headers = PG_GETARG_JSONB_P(1);
	d->body = PG_GETARG_BYTEA_PP(2);
	d->now = GetCurrentTimestamp();
	if (!JB_ROOT_IS_OBJECT(d->headers))
		ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
						errmsg("argument \"headers\" of op_webhook() is not an object"),
						errhint("Pass {\"Name\": \"value\", …}.")));
}

static void
load_provider(Delivery *d)
{
	int    n;
	char **names = config_actions(&d->ledger, d->provider, &n);

	if (n == 0)
		ereport(ERROR,
				(errcode(OPL_ERR_NO_ACTION),
				 errmsg("provider \"%s\" does not exist, or has no actions", d->provider),
				 errhint("op_provider lists providers, op_action their actions.")));
	d->actions = palloc(sizeof(Action *) * n);
	for (int i = 0; i < n; i++)
		d->actions[d->nactions++] = action_get(&d->ledger, names[i]);
	d->spec = d->actions[0]->spec;
	if (d->spec->webhook.secret == NULL)
		ereport(ERROR,
				(errcode(OPL_ERR_SPEC),
				 errmsg("the spec of provider \"%s\" has no \"webhook\" with a secret",
						d->provider),
				 errhint("Say how the provider signs, like {\"webhook\": {\"scheme\": "
						 "\"standard\", \"secret\": \"file:NAME\"}}.")));
}

/* Nothing here tells a forger how far he got. */
static void
check_genuine(const Delivery *d)
{
	const SpecWebhook *webhook = &d->spec->webhook;
	char              *secret = secret_read(webhook->secret, opl_secret_dir);
	SignatureVerdict   verdict =
		signature_check(&webhook->signature, secret, d->headers, VARDATA_ANY(d->body),
						VARSIZE_ANY_EXHDR(d->body), d->now);

	if (verdict == SIGNATURE_NO_KEY)
		ereport(ERROR,
				(errcode(OPL_ERR_SECRET),
				 errmsg("secret \"%s\" is not written as the webhook's scheme wants it",
						webhook->secret),
				 errhint("See webhook.key in the provider's spec.")));
	if (verdict == SIGNATURE_STALE)
		refuse(d, "was signed at another time",
			   "A provider signs each delivery anew. If this is one, compare the clocks, "
			   "or raise webhook.tolerance.");
	if (verdict != SIGNATURE_GOOD)
		refuse(d, "has no valid signature",
			   "Pass the headers and the bytes of the body as they came over the wire; "
			   "answer such a delivery with 400.");
}

/* False: it is not about what the spec wants to hear of. */
static bool
read_event(Delivery *d)
{
	const SpecWebhook *webhook = &d->spec->webhook;
	StringInfoData     lines;
	Plain              plain;

	initStringInfo(&lines);
	answer_put_headers(&lines, d->headers);
	plain = answer_plain(lines.data, lines.len, VARDATA_ANY(d->body),
						 VARSIZE_ANY_EXHDR(d->body), d->spec->response_limit);
	d->packed = plain.is_copy;
	d->event = plain.cut ? NULL : canon_read_json(plain.data, plain.len);
	if (d->event == NULL)
		return false;
	if (webhook->condition != NULL && !path_holds(webhook->condition, d->event))
		return false;
	d->object = webhook->object ? path_first(webhook->object, d->event) : d->event;
	return d->object != NULL;
}

/* ------------------------------------------------------------ whose object */

/* Is it that one's marker, in whatever generation? */
static bool
is_marked(const LedgerOperation *operation, const LedgerRequest *request,
		  const Action *action, const char *marker)
{
	const char *name_space = request ? request->name_space : action->spec->name_space;

	return canon_marker_generation(marker, name_space, operation->op_id) > 0;
}

static bool
is_of(const LedgerOperation *operation, const Action *action)
{
	return operation != NULL && strcmp(operation->action, action->name) == 0;
}

static LedgerOperation *
if_marked(const Delivery *d, const char *op_id, const Action *action, const char *marker)
{
	LedgerOperation *operation =
		canon_op_id_fault(op_id) == NULL ? operation_read(&d->ledger, op_id) : NULL;

	if (!is_of(operation, action) ||
		!is_marked(operation, request_read(&d->ledger, op_id, operation->op.generation),
				   action, marker))
		return NULL;
	return operation;
}

/* Without the generation. */
static char *
stem_of(const char *marker)
{
	char *stem = pstrdup(marker);
	char *end = stem + strlen(stem);

	while (end > stem && end[-1] >= '0' && end[-1] <= '9')
		end--;
	if (end > stem && end[-1] == '~' && *end != '\0')
		end[-1] = '\0';
	return stem;
}

/* What stands before the op id in a marker is the namespace that it was sent with:
 * the present one, or one that the provider's row named once. */
static LedgerOperation *
by_marker(const Delivery *d, const Action *action)
{
	JsonPath        *path = action->spec->object.marker;
	char            *marker = path ? path_text(path, d->object) : NULL;
	const char      *now = d->spec->name_space ? d->spec->name_space : "";
	LedgerOperation *operation = NULL;
	char            *stem;

	if (marker == NULL)
		return NULL;
	stem = stem_of(marker);
	if (strncmp(stem, now, strlen(now)) == 0)
		operation = if_marked(d, stem + strlen(now), action, marker);
	for (char *p = stem; operation == NULL && *p != '\0'; p += pg_mblen(p))
		operation = if_marked(d, p, action, marker);
	return operation;
}

static LedgerOperation *
by_external_id(const Delivery *d, const Action *action)
{
	JsonPath *path = action->spec->object.id;
	char     *id = path ? path_text(path, d->object) : NULL;
	char    **op_ids;
	int       n = 0;

	if (id == NULL || strlen(id) > LONGEST_WORD)
		return NULL;
	op_ids = attempt_with_object(&d->ledger, id, &n);
	for (int i = 0; i < n; i++)
	{
		LedgerOperation *operation = operation_read(&d->ledger, op_ids[i]);

		if (is_of(operation, action) && operation->external_id != NULL &&
			strcmp(operation->external_id, id) == 0)
			return operation;
	}
	return NULL;
}

/* An object of another kind may carry our marker, too: it is nobody's here. */
static bool
is_our_kind(const Delivery *d, const Action *action)
{
	JsonPath *is = action->spec->object.is;

	return action->spec->has_object && (is == NULL || path_holds(is, d->object));
}

static LedgerOperation *
find_operation(const Delivery *d, Action **action)
{
	LedgerOperation *(*const ways[])(const Delivery *, const Action *) = {by_marker,
																		  by_external_id};

	for (int way = 0; way < lengthof(ways); way++)
	{
		for (int i = 0; i < d->nactions; i++)
		{
			LedgerOperation *operation =
				is_our_kind(d, d->actions[i]) ? ways[way](d, d->actions[i]) : NULL;

			*action = d->actions[i];
			if (operation != NULL)
				return operation_lock(&d->ledger, operation->op_id);
		}
	}
	return NULL;
}

/* ----------------------------------------------------------------- storing */

static char *
short_word(char *word)
{
	if (word != NULL && strlen(word) > LONGEST_WORD)
		word[pg_mbcliplen(word, strlen(word), LONGEST_WORD)] = '\0';
	return word;
}

/* What tells a delivery from the next one: the event's own id, or its bytes. */
static char *
event_id(const Delivery *d)
{
	const SpecWebhook *webhook = &d->spec->webhook;
	const char        *source = webhook->signature.id;
	char              *id = NULL;
	uint8              digest[CANON_DIGEST_LEN];

	if (webhook->id != NULL)
		id = path_text(webhook->id, d->event);
	else if (source != NULL)
		id = signature_header(d->headers, source + strlen("header:"));
	if (id != NULL && *id != '\0' && strlen(id) <= LONGEST_WORD)
		return id;
	canon_sha256(VARDATA_ANY(d->body), VARSIZE_ANY_EXHDR(d->body), digest);
	return psprintf("sha256:%s", canon_hex(digest, CANON_DIGEST_LEN));
}

/* The header that proves it, and those that it cannot be read without; others may hold
 * secrets of the one who received it. */
static StringInfo
proof(const Delivery *d)
{
	const Signature *how = &d->spec->webhook.signature;
	const char      *names[] = {how->header, how->timestamp, how->id,
                           d->packed ? "Content-Encoding" : NULL,
                           d->packed ? "Content-Type" : NULL};
	StringInfo       lines = makeStringInfo();

	for (int i = 0; i < lengthof(names); i++)
	{
		const char *name = names[i];
		char       *value;

		if (name != NULL && strncmp(name, "header:", 7) == 0)
			name += 7;
		value = name ? signature_header(d->headers, name) : NULL;
		if (value != NULL)
			appendStringInfo(lines, "%s: %s\r\n", name, value);
	}
	return lines;
}

static void
record(const Delivery *d, const LedgerOperation *operation, const Judgement *judgement,
	   const char *id)
{
	JsonPath     *type = d->spec->webhook.type;
	char         *word = type ? short_word(path_text(type, d->event)) : NULL;
	StringInfo    body = makeStringInfo();
	LedgerAttempt attempt = {.op_id = operation->op_id,
							 .n = attempt_free_number(&d->ledger, operation->op_id, 0),
							 .kind = "webhook",
							 .generation = operation->op.generation,
							 .verdict = opl_verdict_name(judgement->verdict),
							 .reason = word ? word : judgement->reason,
							 .external_id = judgement->external_id,
							 .request_id = id,
							 .headers = proof(d),
							 .bodies = body,
							 .started_at = d->now,
							 .finished_at = d->now};

	appendBinaryStringInfo(body, VARDATA_ANY(d->body), VARSIZE_ANY_EXHDR(d->body));
	attempt_insert(&d->ledger, &attempt, 1);
}

static void
take_in(const Delivery *d, LedgerOperation *operation, const Action *action)
{
	LedgerRequest *request =
		request_read(&d->ledger, operation->op_id, operation->op.generation);
	Ours      ours = {operation->op_id, operation->op.generation,
                 request ? request->name_space : action->spec->name_space};
	Judgement judgement =
		classify_object(action->spec, &ours, d->object, operation->external_id);
	OplClock    clock = finding_clock(NULL);
	OplPromises promises = finding_promises(action->spec, operation, &judgement);
	OplFinding  finding =
		finding_of(&d->ledger, operation, &judgement, OPL_KIND_DOOR, clock.now);
	char       *id = event_id(d);
	OplDecision decision;

	if (attempt_has_event(&d->ledger, operation->op_id, id))
		return;
	if (request != NULL)
		operation->op.not_after = request->not_after;
	decision = opl_decide(&operation->op, &promises, &finding, clock);
	record(d, operation, &judgement, id);
	if (decision.moved || decision.note_failed)
		finding_store(&d->ledger, operation, &decision, &judgement, false, clock.now);
}

Datum
op_webhook(PG_FUNCTION_ARGS)
{
	Delivery         d = {0};
	LedgerOperation *operation = NULL;
	Action          *action;
	TimestampTz      due_at = OPL_NEVER;

	read_arguments(fcinfo, &d);
	d.ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	load_provider(&d);
	check_genuine(&d);
	if (read_event(&d))
		operation = find_operation(&d, &action);
	if (operation != NULL)
	{
		take_in(&d, operation, action);
		if (!opl_state_ended(operation->op.state))
			due_at = agenda_due_at(&d.ledger, operation->op_id);
	}
	if (operation == NULL)
		PG_RETURN_NULL(); /* somebody else's object: nothing to say about it */
	PG_RETURN_DATUM(receipt_datum(fcinfo, operation, false, due_at, NULL));
}
