# Many sessions at once: on one id, and beside a worker that works on what they hold. More of it, step by
# step, is in test/specs.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Whoever waits for a lock longer than the worker may is in the log.
my $double = start_provider();
my $node   = new_node(name => 'sessions', conf => "log_lock_waits = on\ndeadlock_timeout = 50ms\n");
$double->config(stores => 'nothing');
add_provider($node, 'bank', double => $double, spec => { key => { stores => 'nothing' } });
$node->safe_psql('postgres', 'CREATE TABLE answers (op_id text, state text, is_new boolean, client integer)');

my $dir = PostgreSQL::Test::Utils::tempdir('pgbench');

sub script
{
    my ($name, $text) = @_;
    PostgreSQL::Test::Utils::append_to_file("$dir/$name.sql", $text);
    return "$dir/$name.sql";
}

sub bench
{
    my ($name, @options) = @_;
    return $node->command_ok([ 'pgbench', '-n', '-j', '2', @options, $node->connstr('postgres') ], $name);
}

# An INSERT … SELECT: a NULL answer, or none, would be seen.
my $submit = q{INSERT INTO answers SELECT s.op_id, s.state, s.is_new, :client_id
  FROM op_submit('%s-' || :n, 'bank.refund', jsonb_build_object('payment_intent', 'pi-%s-' || :n, 'amount', 1)) AS s;
};

sub check_answers
{
    my ($what, $sessions) = @_;
    my $ids = $sessions ? 20 : $node->safe_psql('postgres', "SELECT count(DISTINCT op_id) FROM answers WHERE op_id LIKE '$what-%'");
    my $of  = "FROM answers WHERE op_id LIKE '$what-%'";
    is($node->safe_psql('postgres', "SELECT count(*) $of"), $ids * $sessions, "$what: every session has its answer") if $sessions;
    is($node->safe_psql('postgres', "SELECT count(*) $of AND (op_id IS NULL OR state IS NULL OR is_new IS NULL)"), 0, "$what: none is NULL");
    is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT 1 $of GROUP BY op_id HAVING count(*) FILTER (WHERE is_new) <> 1) x"), 0, "$what: one of them is new");
    is($node->safe_psql('postgres', "SELECT count(*), count(DISTINCT op_id) FROM op_operation WHERE op_id LIKE '$what-%'"), "$ids|$ids", "$what: one row each");
    is($node->safe_psql('postgres', "SELECT count(*) FROM op_request WHERE op_id LIKE '$what-%'"), $ids, "$what: one request each");
    all_ended($node, "$what-", 'confirmed', $ids);
    return;
}

subtest 'fifty sessions on one id' => sub {
    # Behind the transaction: one that is retried asks for the same id again.
    my $next = "\\set n :n + 1\n";
    my @all  = ('-c', 50, '-t', 20, '-D', 'n=1');
    bench('READ COMMITTED', @all, '-f', script('plain', sprintf($submit, 'plain', 'plain') . $next));
    check_answers('plain', 50);
    my $serializable = "BEGIN ISOLATION LEVEL SERIALIZABLE;\n" . sprintf($submit, 'serial', 'serial') . "END;\n$next";
    bench('SERIALIZABLE', @all, '--max-tries', 100, '-f', script('serial', $serializable));
    check_answers('serial', 50);
    # Every other one changes its mind.
    my $fickle = "BEGIN;\n" . sprintf($submit, 'fickle', 'fickle') . "\\if :client_id % 2\nROLLBACK;\n\\else\nEND;\n\\endif\n$next";
    bench('with rollbacks', @all, '-f', script('fickle', $fickle));
    check_answers('fickle', 25);
};

# Eight sessions that do all that sessions do, on few ids, while the worker drains them.
subtest 'a stress' => sub {
    my $since = log_position($node);
    $node->safe_psql('postgres', q{
        CREATE FUNCTION attempt(what text) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            EXECUTE what;
        EXCEPTION WHEN SQLSTATE 'OL001' OR SQLSTATE 'OL007' THEN NULL;
        END $$});
    my $id = '\set n random_exponential(1, 20000, 5)' . "\n";
    my %scripts = (
        submit  => "BEGIN;\n" . sprintf($submit, 'busy', 'busy') . "\\sleep 2 ms\nEND;\n",
        many    => sprintf(q{SELECT count(op_submit('busy-' || :n || '-' || i, 'bank.refund', '{"payment_intent": "pi-many", "amount": 1}', not_before => now() + interval '50 ms')) FROM generate_series(1, 5) i;}) . "\n",
        cancel  => "SELECT attempt(format('SELECT op_cancel(%L)', 'busy-' || :n));\n",
        wait    => "SELECT attempt(format('SELECT op_wait(%L, ''5 ms'')', 'busy-' || :n));\n",
        hold    => "BEGIN;\nSELECT state FROM op_operation WHERE op_id LIKE 'busy-%' AND state <> 'confirmed' ORDER BY op_id LIMIT 1 FOR UPDATE SKIP LOCKED;\n\\sleep 30 ms\nEND;\n",
        execute => q{CALL op_execute('busy-x-' || :n || '-' || :client_id, 'bank.refund', '{"payment_intent": "pi-x", "amount": 1}', '50 ms');} . "\n",
    );
    my @files = map { ('-f', script($_, $id . $scripts{$_}) . ($_ eq 'submit' ? '@4' : '@1')) } sort keys %scripts;
    my $worker = worker_pid($node);
    bench('eight sessions', '-c', 8, '-T', 6, @files);
    ok(wait_sql($node, q{SELECT count(*) = 0 FROM op_operation WHERE state NOT IN ('confirmed', 'cancelled')}, 'the end'), 'all come to an end');
    is($node->safe_psql('postgres', q{SELECT sum(deadlocks) FROM pg_stat_database}), 0, 'no deadlock');
    is(join("\n", grep { /\[$worker\].*still waiting/ } split /\n/, log_since($node, $since)), '', 'the worker waited for nobody');
    is(complaints($node, $since, 'ERROR|WARNING|FATAL'), '', 'nothing failed');
    is($node->safe_psql('postgres', 'SELECT failed_turns FROM _op_worker()'), 0, 'no turn failed');
    my %sends;
    $sends{ $_->{op} }++ for $double->requests(kind => 'send');
    is(join(' ', grep { $sends{$_} > 1 } keys %sends), '', 'nothing was sent twice');
    my $confirmed = $node->safe_psql('postgres', q{SELECT count(*) FROM op_operation WHERE state = 'confirmed'});
    is(scalar keys %sends, $confirmed, "$confirmed sent and confirmed, the cancelled ones not");
};

subtest 'what a session holds stays on the agenda as it was' => sub {
    my $due = q{SELECT due_at FROM op_due WHERE op_id = 'held'};
    $node->safe_psql('postgres', q{SELECT op_provider_pause('bank')});
    submit($node, 'held', 'bank.refund', { payment_intent => 'pi-held', amount => 1 });
    my $before = $node->safe_psql('postgres', $due);
    my $holder = $node->background_psql('postgres');
    $holder->query_safe(q{BEGIN; SELECT FROM op_operation WHERE op_id = 'held' FOR UPDATE});
    my $resumed = $node->safe_psql('postgres', q{SELECT clock_timestamp() FROM op_provider_resume('bank')});
    ok(wait_sql($node, "SELECT turn_at > '$resumed'::timestamptz + interval '100 ms' FROM _op_worker()", 'turns'), 'the worker came by');
    is($node->safe_psql('postgres', $due), $before, 'and wrote nothing: whoever holds it may be about to claim it');
    $holder->query_safe('COMMIT');
    $holder->quit;
    ok(wait_state($node, 'held', 'confirmed'), 'it goes out when it is free');
};

check_invariants($node, $double);
$node->stop;
done_testing();
