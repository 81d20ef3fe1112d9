# op_ledger: operations that happen once.
#   make && sudo make install        build for the pg_config on the PATH
#   make installcheck                needs a running server that has it preloaded,
#                                    and make -C test/windows install before
#   script/test                      does everything on its own server

EXTENSION   = op_ledger
EXTVERSION  = 1.0
MODULE_big  = op_ledger
PGFILEDESC  = "op_ledger - operations that happen once"

OBJS        = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
SQL_PARTS   = $(sort $(wildcard src/sql/*.sql))
PROFILES    = $(sort $(wildcard src/profiles/*.json))
DATA_built  = $(EXTENSION)--$(EXTVERSION).sql
DATA        = $(wildcard upgrades/*.sql)

REGRESS     = $(shell cat sql/order)
REGRESS_OPTS = --inputdir=. --load-extension=op_ledger --load-extension=op_ledger_test
ISOLATION   = $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test --load-extension=op_ledger
EXTRA_CLEAN = $(DATA_built)

PG_CPPFLAGS = -Isrc
PG_CFLAGS   = -std=gnu11 -fvisibility=hidden -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
SHLIB_LINK  = $(shell curl-config --libs) -lz

PG_CONFIG  ?= pg_config
PGXS       := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# PGXS tracks no headers.
$(OBJS): $(wildcard src/*/*.h)

# The install script: the topics in order, the shipped profiles among them.
$(DATA_built): $(SQL_PARTS) $(PROFILES) script/profiles.sql.sh
	cat $(SQL_PARTS) > $@.tmp
	script/profiles.sql.sh $(PROFILES) >> $@.tmp
	mv $@.tmp $@
