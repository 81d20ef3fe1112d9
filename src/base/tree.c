/*
 * tree.c - jsonb as a tree: what a value is, its members, two trees merged, one
 * value put at a pointer.
 *
 * Nothing here is changed in place; what comes back may share memory with what
 * went in.
 */
#include "postgres.h"

#include "base/tree.h"

#include "catalog/pg_type_d.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

bool
json_is_object(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data);
}

bool
json_is_array(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data);
}

const char *
json_kind(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvNull:
			return "null";
		case jbvString:
			return "a string";
		case jbvNumeric:
			return "a number";
		case jbvBool:
			return "a boolean";
		default:
			return json_is_object(value) ? "an object" : "an array";
	}
}

bool
json_member(const JsonbContainer *object, const char *name, JsonbValue *value)
{
	/* The function reads only; its parameter lacks the const. */
	JsonbContainer *container = unconstify(JsonbContainer *, object);

	if (!JsonContainerIsObject(container))
		return false;
	return getKeyJsonValueFromContainer(container, name, strlen(name), value) != NULL;
}

/* ------------------------------------------------------------- changing */

static void
push_member(JsonbParseState **state, JsonbValue *name, JsonbValue *value)
{
	pushJsonbValue(state, WJB_KEY, name);
	pushJsonbValue(state, WJB_VALUE, value);
}

static Jsonb *
container_json(const JsonbValue *value)
{
	return JsonbValueToJsonb(unconstify(JsonbValue *, value));
}

Jsonb *
json_merge(Jsonb *a, Jsonb *b)
{
	JsonbParseState *state = NULL;
	JsonbIterator   *it;
	JsonbValue       name, under, over;
	int              token;

	if (!JB_ROOT_IS_OBJECT(a) || !JB_ROOT_IS_OBJECT(b))
		return b;
	check_stack_depth();
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	it = JsonbIteratorInit(&a->root);
	while ((token = JsonbIteratorNext(&it, &name, true)) != WJB_DONE)
	{
		char *text;

		if (token != WJB_KEY)
			continue;
		(void) JsonbIteratorNext(&it, &under, true);
		text = pnstrdup(name.val.string.val, name.val.string.len);
		if (!json_member(&b->root, text, &over))
			push_member(&state, &name, &under);
		else if (json_is_object(&under) && json_is_object(&over))
		{
			JsonbValue both;

			JsonbToJsonbValue(json_merge(container_json(&under), container_json(&over)),
							  &both);
			push_member(&state, &name, &both);
		}
		else
			push_member(&state, &name, &over);
	}
	it = JsonbIteratorInit(&b->root);
	while ((token = JsonbIteratorNext(&it, &name, true)) != WJB_DONE)
	{
		if (token != WJB_KEY)
			continue;
		(void) JsonbIteratorNext(&it, &over, true);
		if (!json_member(&a->root, pnstrdup(name.val.string.val, name.val.string.len),
						 &under))
			push_member(&state, &name, &over);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* One step of a JSON pointer: "~1" is a slash, "~0" a tilde. */
static Datum
pointer_step(const char *from, size_t len)
{
	StringInfoData step;

	initStringInfo(&step);
	for (size_t i = 0; i < len; i++)
	{
		bool escaped =
			from[i] == '~' && i + 1 < len && (from[i + 1] == '0' || from[i + 1] == '1');

		appendStringInfoChar(&step, !escaped ? from[i] : from[i + 1] == '1' ? '/' : '~');
		i += escaped;
	}
	return CStringGetTextDatum(step.data);
}

/* "/a/b" -> {a,b} */
static Datum
pointer_steps(const char *pointer)
{
	Datum *steps = palloc(sizeof(Datum) * (strlen(pointer) + 1));
	int    n = 0;

	while (*pointer == '/')
	{
		size_t len = strcspn(pointer + 1, "/");

		steps[n++] = pointer_step(pointer + 1, len);
		pointer += len + 1;
	}
	return PointerGetDatum(construct_array(steps, n, TEXTOID, -1, false, TYPALIGN_INT));
}

JsonbValue *
json_set(const JsonbValue *object, const char *pointer, const char *json)
{
	Jsonb      *tree = JsonbValueToJsonb(unconstify(JsonbValue *, object));
	Datum       value = DirectFunctionCall1(jsonb_in, CStringGetDatum(json));
	Datum       set = DirectFunctionCall4(jsonb_set, JsonbPGetDatum(tree),
										  pointer_steps(pointer), value, BoolGetDatum(true));
	JsonbValue *changed = palloc(sizeof(JsonbValue));

	JsonbToJsonbValue(DatumGetJsonbP(set), changed);
	return changed;
}
