-- What the benchmarks work on: one provider that sends, one that only collects,
-- and the plain tables that the ledger is compared with.
SET client_min_messages = warning;
CREATE EXTENSION op_ledger;

SELECT op_provider_add(name, base_url => :'base_url', secret => 'file:bench.key',
                       spec => '{"auth": {"scheme": "bearer"}, "key": {"ttl": "24 h", "stores": "all"}}')
  FROM unnest(ARRAY['mill', 'shelf']) AS name;
SELECT op_action_add(name || '.order', name, '{
    "args": {"body": {"type": "any"}},
    "request": {"method": "POST", "path": "/v1/orders", "json": "{body}"},
    "object": {"id": "$.id", "marker": "$.metadata.op_id"}}')
  FROM unnest(ARRAY['mill', 'shelf']) AS name;
SELECT op_provider_pause('shelf');

-- The same columns, keys and storage as an operation of the ledger has at its
-- birth, without checks and triggers.
CREATE TABLE plain_operation (
    op_id text COLLATE "C" PRIMARY KEY, action text NOT NULL, provider text NOT NULL, state text NOT NULL,
    args_hash bytea NOT NULL, submitted_by text NOT NULL, created_at timestamptz NOT NULL
) WITH (fillfactor = 35);
CREATE TABLE plain_request (
    op_id text COLLATE "C" NOT NULL, generation integer NOT NULL, args jsonb NOT NULL, key text, method text NOT NULL,
    url text NOT NULL, headers text[] NOT NULL, body bytea, PRIMARY KEY (op_id, generation)
);
CREATE TABLE plain_due (
    op_id text COLLATE "C" PRIMARY KEY, provider text COLLATE "C" NOT NULL, step text COLLATE "C" NOT NULL,
    due_at timestamptz NOT NULL, epoch bigint
) WITH (fillfactor = 50);
CREATE INDEX ON plain_due (provider, step, due_at);
CREATE TABLE plain_row (n bigint);
-- Whatever the ledger does to keep bulk in its row, the plain table does as well.
DO $$
DECLARE
    v_options text := (SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = 'op_request'::regclass);
BEGIN
    IF v_options IS NOT NULL THEN
        EXECUTE format('ALTER TABLE plain_request SET (%s)', v_options);
    END IF;
END
$$;

-- A server that has been up for a while writes its log over old segments; a new
-- one would fill each with zeros first, in the middle of what is measured.
SELECT format('SELECT pg_logical_emit_message(false, %L, repeat(%L, 15000000))', 'bench', 'x')
  FROM generate_series(1, 64)
\gexec
SELECT pg_switch_wal();
CHECKPOINT;
