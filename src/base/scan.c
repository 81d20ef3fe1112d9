/*
 * scan.c - text into values, without an error.
 *
 * Invariant: what a text says never raises. The caller knows which field it is and
 * words the error.
 */
#include "postgres.h"

#include "base/scan.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/* No duration in a spec is longer than a century. */
#define LONGEST_DAYS 36525

/* Is this the fault of the text, or did something else end the call? */
static bool
fault_of_text(int sqlerrcode)
{
	int category = ERRCODE_TO_CATEGORY(sqlerrcode);

	return category == ERRCODE_TO_CATEGORY(ERRCODE_DATA_EXCEPTION) ||
		   category == ERRCODE_TO_CATEGORY(ERRCODE_SYNTAX_ERROR) ||
		   category == ERRCODE_TO_CATEGORY(ERRCODE_PROGRAM_LIMIT_EXCEEDED) ||
		   category == ERRCODE_TO_CATEGORY(ERRCODE_FEATURE_NOT_SUPPORTED);
}

/* Input functions hold nothing but memory, so their error may be caught
 * without a subtransaction. */
bool
scan_input(PGFunction function, const char *text, Datum *result, char **fault)
{
	MemoryContext  context = CurrentMemoryContext;
	volatile bool  good = false;
	volatile Datum value = (Datum) 0;

	PG_TRY();
	{
		value = DirectFunctionCall3(function, CStringGetDatum(text),
									ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
		good = true;
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (!fault_of_text(error->sqlerrcode))
			PG_RE_THROW();
		FlushErrorState();
		*fault = error->message;
	}
	PG_END_TRY();
	*result = value;
	return good;
}

bool
scan_duration(const char *text, int64 *microseconds, char **fault)
{
	Datum     datum;
	Interval *interval;

	if (!scan_input(interval_in, text, &datum, fault))
	{
		*fault = "it is no amount of time";
		return false;
	}
	interval = DatumGetIntervalP(datum);
	if (interval->month != 0)
		*fault = "months and years have no fixed length";
	else if (interval->day < 0 || interval->time < 0)
		*fault = "it is negative";
	else if (interval->day > LONGEST_DAYS ||
			 interval->time > LONGEST_DAYS * USECS_PER_DAY)
		*fault = "it is longer than a century";
	else
	{
		*microseconds = interval->day * USECS_PER_DAY + interval->time;
		return true;
	}
	return false;
}

bool
scan_moment(const char *text, TimestampTz *moment, char **fault)
{
	Datum datum;

	if (!scan_input(timestamptz_in, text, &datum, fault))
	{
		*fault = "it is no point in time";
		return false;
	}
	*moment = DatumGetTimestampTz(datum);
	if (!TIMESTAMP_NOT_FINITE(*moment))
		return true;
	*fault = "it is not finite";
	return false;
}

Jsonb *
scan_json(const char *text, char **fault)
{
	Datum datum;

	return scan_input(jsonb_in, text, &datum, fault) ? DatumGetJsonbP(datum) : NULL;
}
