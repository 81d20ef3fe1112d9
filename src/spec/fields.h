/*
 * fields.h - a JSON object read by a table of its fields.
 *
 * The table is the documentation: one row per field, by its path from the root.
 * "args.*.type" is a member of every member of args, "rules[].then" a member of
 * every element of rules.
 */
#ifndef OPL_FIELDS_H
#define OPL_FIELDS_H

#include "postgres.h"

#include "utils/jsonb.h"

typedef struct Field Field;

/* Where an object stands that is being read. */
typedef struct Reading
{
	const char  *what;  /* for messages: spec of action "stripe.refund" */
	const Field *table; /* ends with a path of NULL */
	int          level; /* rows that have other levels only are refused */
	bool         whole; /* required fields must be there */
} Reading;

/* One field as it was written. */
typedef struct Place
{
	const Reading *reading;
	const Field   *field;
	const char    *path; /* rules[2].then */
	void          *base; /* the struct that its offset counts from */
} Place;

typedef void (*FieldReader)(const Place *place, const JsonbValue *value);

/* Where a row of the table may stand, and whether it must. */
#define FIELD_LEVELS 0x0f /* bits of the table's own choosing; 0: everywhere */
#define FIELD_REQUIRED 0x10

#define FIELD_NOWHERE (-1) /* checked, not kept */

struct Field
{
	const char *path;
	FieldReader read;
	int         flags;
	int         offset;   /* of the target in its struct, or FIELD_NOWHERE */
	int64       min, max; /* of numbers and durations; both 0: any */
	const void *extra;    /* what the reader needs besides */
};

/* Members of a map or elements of a list, each a struct of its own. */
typedef struct FieldMany
{
	size_t size;         /* of one */
	int    array_offset; /* of the pointer to them, in the struct around */
	int    count_offset;
	int    name_offset; /* of the member's name in its own struct (maps) */
} FieldMany;

/* Read `object` into `base`. Raises OL003 for an unknown field, with the nearest
 * known name, and for every value that its row does not take. */
extern void fields_read(const Reading *reading, Jsonb *object, void *base);

/* Readers. A null is as if the field were not there. */
extern void read_members(const Place *place, const JsonbValue *value); /* object */
extern void read_map(const Place *place, const JsonbValue *value);     /* FieldMany */
extern void read_list(const Place *place, const JsonbValue *value);    /* FieldMany */
extern void read_text(const Place *place, const JsonbValue *value);    /* char * */
extern void read_name(const Place      *place,
					  const JsonbValue *value); /* char *, HTTP token */
extern void read_integer(const Place *place, const JsonbValue *value);   /* int */
extern void read_number(const Place *place, const JsonbValue *value);    /* double */
extern void read_boolean(const Place *place, const JsonbValue *value);   /* bool */
extern void read_duration(const Place *place, const JsonbValue *value);  /* int64 */
extern void read_moment(const Place *place, const JsonbValue *value);    /* int64 */
extern void read_choice(const Place *place, const JsonbValue *value);    /* int; names */
extern void read_path(const Place *place, const JsonbValue *value);      /* JsonPath * */
extern void read_condition(const Place *place, const JsonbValue *value); /* JsonPath * */
extern void read_object(const Place *place, const JsonbValue *value); /* JsonbValue * */
extern void read_paths(const Place *place, const JsonbValue *value);  /* not kept */
extern void read_later(const Place      *place,
					   const JsonbValue *value); /* refused; what to do */
extern void read_any(const Place *place, const JsonbValue *value); /* JsonbValue * */

/* For readers elsewhere. */
extern void          *field_target(const Place *place);
extern _Noreturn void field_fault(const Place *place, const char *must,
								  const char *detail, const char *hint);
extern char          *field_text(const Place *place, const JsonbValue *value);

/* The name that was probably meant, or NULL. */
extern const char *nearest_name(const char *name, const char *const *names, int count);

#endif
