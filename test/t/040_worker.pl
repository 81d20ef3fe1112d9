# The life of a worker: it is there when there is something to do, never in anybody's way, gone when it is
# not wanted, and back when it was ended. Whatever it had in hand is found again and looked up.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($double, $elsewhere) = (start_provider(), start_provider());
my $node = new_node(name => 'worker', conf => q{
max_prepared_transactions = 5
max_logical_replication_workers = 0
autovacuum = off
autovacuum_naptime = '1s'
autovacuum_vacuum_threshold = 20
});

# A provider that may hang for as long as it likes; keys are not remembered, so a second send would be a
# second effect.
my %patient = (timeout => { connect => '1 s', total => '120 s', flight => '1 s' }, key => { stores => 'nothing' });
$_->config(stores => 'nothing') for $double, $elsewhere;
add_provider($node, 'bank', double => $double, spec => \%patient);

sub refund
{
    my ($op) = @_;
    return submit($node, $op, 'bank.refund', { payment_intent => "pi_$op", amount => 500 });
}

sub call_of
{
    my ($op) = @_;
    return qq{op_submit('$op', 'bank.refund', '{"payment_intent": "pi_$op", "amount": 500}')};
}

sub sends
{
    my ($op) = @_;
    return scalar $double->requests(kind => 'send', op => $op);
}

sub confirmed_once
{
    my ($what, @ops) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $list = join ',', map { sql_text($_) } @ops;
    wait_sql($node, "SELECT count(*) = " . @ops . " FROM op_operation WHERE op_id IN ($list) AND state = 'confirmed'", $what);
    is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT state, ' ') FROM op_operation WHERE op_id IN ($list)"), 'confirmed', "$what: confirmed");
    is(join(' ', grep { sends($_) != 1 } @ops), '', "$what: sent once");
    return;
}

# Turns that began since: each second there is one, whatever happens.
sub wait_turns
{
    my ($seconds) = @_;
    my $since = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
    return wait_sql($node, "SELECT turn_at > '$since'::timestamptz + interval '$seconds s' FROM _op_worker()", 'turns');
}

subtest 'prepared transactions and savepoints' => sub {
    worker_pid($node);
    $node->safe_psql('postgres', 'BEGIN; SELECT ' . call_of('prepared') . q{; PREPARE TRANSACTION 'kept'});
    $node->safe_psql('postgres', 'BEGIN; SELECT ' . call_of('undone') . q{; PREPARE TRANSACTION 'undone'});
    ok(wait_turns(3), 'three polls');
    is(sends('prepared') + sends('undone'), 0, 'nothing is sent before the second phase');
    is($node->safe_psql('postgres', q{SELECT count(*) FROM op_operation WHERE op_id IN ('prepared', 'undone')}), 0, 'nothing is there');
    within(2, 'COMMIT PREPARED is sent within a poll', sub {
        $node->safe_psql('postgres', q{COMMIT PREPARED 'kept'});
        $double->wait(requests => 1, kind => 'send', op => 'prepared');
    });
    $node->safe_psql('postgres', q{ROLLBACK PREPARED 'undone'});
    confirmed_once('prepared', 'prepared');
    is($node->safe_psql('postgres', 'SELECT is_new FROM ' . call_of('undone')), 't', 'the id is free after ROLLBACK PREPARED');
    confirmed_once('undone', 'undone');

    $node->safe_psql('postgres', 'BEGIN; SAVEPOINT a; SELECT ' . call_of('s1') . '; ROLLBACK TO a; SELECT ' . call_of('s2') . '; COMMIT');
    $node->safe_psql('postgres', 'DO $$ BEGIN PERFORM ' . call_of('e1') . q{; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN PERFORM } . call_of('e2') . '; END $$');
    confirmed_once('what was not rolled back', 's2', 'e2');
    is(sends('s1') + sends('e1'), 0, 'what was rolled back is not sent');

    is($node->safe_psql('postgres', q{
        BEGIN;
        SELECT count(op_submit('many-' || n, 'bank.refund', '{"payment_intent": "pi_many", "amount": 1}', not_before => now() + interval '1 day'))
          FROM generate_series(1, 1000) n;
        SELECT count(DISTINCT xmin::text) FROM op_operation WHERE op_id LIKE 'many-%';
        ROLLBACK}), "1000\n1", 'op_submit opens no subtransaction');
};

subtest 'a provider that hangs' => sub {
    my @ops = hang_all($node, $double, 'bank.refund', 'asleep', 20);
    my $pid = worker_pid($node);
    my %row = %{ worker_row($node) };
    is($row{xact_start},   undef, 'no transaction is open');
    is($row{backend_xmin}, undef, 'no snapshot holds the horizon');
    is($row{state}, 'idle', 'pg_stat_activity says idle');
    is($row{backend_type} . ', ' . $row{application_name}, 'op_ledger worker, op_ledger worker', 'and who it is');

    within(2, 'CREATE DATABASE', sub { $node->safe_psql('postgres', 'CREATE DATABASE bystander') });
    within(2, 'DROP DATABASE',   sub { $node->safe_psql('postgres', 'DROP DATABASE bystander') });
    is(worker_pid($node), $pid, 'DDL on other databases does not bother it');

    within(3, 'a reload takes effect', sub {
        $node->safe_psql('postgres', 'ALTER SYSTEM SET op_ledger.enabled = off');
        $node->reload;
        no_worker($node);
    });
    is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT state, ' ') FROM op_operation WHERE op_id LIKE 'asleep-%'}), 'unknown', 'what was in flight is unknown');
    is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT verdict || ' ' || reason, ', ') FROM op_attempt WHERE op_id LIKE 'asleep-%'}), 'unknown lost', 'and its attempts are lost');
    my ($rc, $out, $err) = $node->psql('postgres', 'SELECT state FROM ' . call_of('while-off'));
    like($err, qr/WARNING:.*no worker runs/, 'a submit warns');
    $node->safe_psql('postgres', 'ALTER SYSTEM RESET op_ledger.enabled');
    $node->reload;
    confirmed_once('what hung at the reload', @ops, 'while-off');

    @ops = hang_all($node, $double, 'bank.refund', 'ended', 3);
    $pid = worker_pid($node);
    within(2, 'pg_terminate_backend', sub {
        $node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
        no_worker($node, pid => $pid);
    });
    within(2, 'it is back', sub { worker_pid($node, not => $pid) });
    confirmed_once('what hung at the termination', @ops);

    @ops = hang_all($node, $double, 'bank.refund', 'stopped', 3);
    within(5, 'a fast stop', sub { $node->stop('fast') });
    $node->start;
    confirmed_once('what hung at the stop', @ops);
    my @seen = map { $_->{verdict} } map { attempts($node, $_) } @ops;
    is(join(' ', @seen), join(' ', ('unknown found') x 3), 'lost, then found');
};

subtest 'DROP EXTENSION' => sub {
    my $since = log_position($node);
    $node->safe_psql('postgres', 'CREATE DATABASE small');
    $node->safe_psql('small', 'CREATE SCHEMA op_ledger');
    wait_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'small'}, 'the probe');
    create_ledger('small');
    within(2, 'a worker comes at CREATE EXTENSION', sub { worker_pid($node, database => 'small') });

    hang_all($node, $elsewhere, 'bank.refund', 'dropped', 2, database => 'small');
    $node->safe_psql('small', 'BEGIN; DROP EXTENSION op_ledger; ROLLBACK');
    wait_turns(1);
    is($node->safe_psql('small', q{SELECT count(*) FROM op_operation WHERE state = 'submitted'}), 2, 'DROP and ROLLBACK: nothing is lost');

    my $pid = worker_pid($node, database => 'small');
    $elsewhere->script({ match => { kind => 'send', op => 'late' }, do => { delay_answer => 'late' } });
    $node->safe_psql('small', 'SELECT ' . call_of('late'));
    $elsewhere->wait(waiting => 1, op => 'late');
    my $holder = $node->background_psql('small');
    $holder->query_safe('BEGIN; DROP EXTENSION op_ledger');
    $elsewhere->release('late');
    $elsewhere->wait(finished => 1, op => 'late');
    wait_turns(1);
    $holder->query_safe('ROLLBACK');
    $holder->quit;
    ok($node->poll_query_until('small', q{SELECT state = 'confirmed' FROM op_operation WHERE op_id = 'late'}), 'an answer that came meanwhile is settled');

    within(3, 'DROP EXTENSION with requests in flight', sub {
        $node->safe_psql('small', 'DROP EXTENSION op_ledger');
        no_worker($node, database => 'small');
    });
    create_ledger('small');
    $pid = worker_pid($node, database => 'small');
    within(3, 'BEGIN, DROP, CREATE, COMMIT: another worker', sub {
        $node->safe_psql('small', 'BEGIN; DROP EXTENSION op_ledger; CREATE EXTENSION op_ledger SCHEMA op_ledger; COMMIT');
        worker_pid($node, database => 'small', not => $pid);
    });
    is($node->safe_psql('small', q{SELECT state FROM op_ledger._op_worker()}), 'running', 'it found the new extension');
    $node->safe_psql('small', 'DROP EXTENSION op_ledger');
    within(2, 'and leaves with it', sub { no_worker($node, database => 'small') });
    within(2, 'DROP DATABASE', sub { $node->safe_psql('postgres', 'DROP DATABASE small') });
    is(complaints($node, $since, 'ERROR|FATAL|WARNING'), '', 'the log is silent');
};

# A ledger in another database, with a provider of its own.
sub create_ledger
{
    my ($db) = @_;
    $node->safe_psql($db, 'CREATE EXTENSION op_ledger');
    $node->safe_psql($db, sprintf 'SELECT op_provider_add(%s, base_url => %s, secret => %s, spec => %s::jsonb)',
        map { sql_text($_) } 'bank', $elsewhere->url, 'file:test.key', to_json({ auth => { scheme => 'bearer' }, %patient }));
    $node->safe_psql($db, sprintf 'SELECT op_action_add(%s, %s, %s::jsonb)', map { sql_text($_) } 'bank.refund', 'bank', to_json(refund_spec()));
    return;
}

subtest 'DDL on the database' => sub {
    my $since = log_position($node);
    $node->safe_psql('postgres', 'CREATE DATABASE shop');
    create_ledger('shop');
    worker_pid($node, database => 'shop');
    within(3, 'RENAME beside an idle worker', sub { $node->safe_psql('postgres', 'ALTER DATABASE shop RENAME TO store') });
    within(3, 'its worker is back', sub { worker_pid($node, database => 'store') });
    $node->safe_psql('store', 'SELECT ' . call_of('renamed'));
    ok($elsewhere->wait(requests => 1, kind => 'send', op => 'renamed'), 'and sends');
    ok($node->poll_query_until('store', q{SELECT state = 'confirmed' FROM op_operation WHERE op_id = 'renamed'}), 'and settles');

    hang_all($node, $elsewhere, 'bank.refund', 'busy', 2, database => 'store');
    within(5, 'CREATE DATABASE TEMPLATE beside a busy worker', sub { $node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE store') });
    ok($node->poll_query_until('store', q{SELECT count(*) = 2 FROM op_operation WHERE op_id LIKE 'busy-%' AND state = 'confirmed'}), 'the original goes on');
    worker_pid($node, database => 'copy');
    ok($node->poll_query_until('copy', q{SELECT turn_at IS NOT NULL FROM _op_worker()}), 'the copy has a worker');
    is($node->safe_psql('copy', q{SELECT count(*) FROM op_attempt WHERE op_id LIKE 'busy-%' AND kind = 'lookup'}), 0, 'which does nothing');
    like($node->safe_psql('copy', q{SELECT status, detail FROM op_health() WHERE check_name = 'home'}), qr/critical.*came from elsewhere/, 'and op_health says why');
    like(log_since($node, $since), qr/WARNING:.*sends nothing from database/, 'so does the log');
    within(2, 'DROP DATABASE beside an idle worker', sub { $node->safe_psql('postgres', 'DROP DATABASE copy') });

    hang_all($node, $elsewhere, 'bank.refund', 'moving', 2, database => 'store');
    within(5, 'RENAME beside a busy worker', sub { $node->safe_psql('postgres', 'ALTER DATABASE store RENAME TO shop') });
    ok($node->poll_query_until('shop', q{SELECT count(*) = 2 FROM op_operation WHERE op_id LIKE 'moving-%' AND state = 'confirmed'}), 'nothing is lost');

    $node->safe_psql('postgres', 'ALTER DATABASE shop IS_TEMPLATE true');
    within(3, 'a template has no worker', sub { no_worker($node, database => 'shop') });
    $node->safe_psql('postgres', 'CREATE DATABASE twin TEMPLATE shop');
    worker_pid($node, database => 'twin');
    is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE datname = 'shop'}), 0, 'only the database made from it');
    $node->safe_psql('postgres', 'ALTER DATABASE shop IS_TEMPLATE false');
    worker_pid($node, database => 'shop');

    hang_all($node, $elsewhere, 'bank.refund', 'forced', 2, database => 'shop');
    within(5, 'DROP DATABASE FORCE beside a busy worker', sub { $node->safe_psql('postgres', 'DROP DATABASE shop WITH (FORCE)') });
    within(5, 'DROP DATABASE beside an idle worker', sub { $node->safe_psql('postgres', 'DROP DATABASE twin') });
    $node->safe_psql('postgres', 'CREATE DATABASE shop');
    create_ledger('shop');
    worker_pid($node, database => 'shop');
    hang_all($node, $elsewhere, 'bank.refund', 'unforced', 2, database => 'shop');
    within(5, 'DROP DATABASE beside a busy worker', sub { $node->safe_psql('postgres', 'DROP DATABASE shop') });
    is(complaints($node, $since, 'ERROR|FATAL'), '', 'nothing failed');
};

# Four more ways are in 020_crash.pl.
subtest 'the launcher comes back, too' => sub {
    my $launcher = launcher_pid($node);
    my $worker   = worker_pid($node);
    $node->safe_psql('postgres', "SELECT pg_terminate_backend($launcher)");
    within(4, 'after pg_terminate_backend', sub { launcher_pid($node, not => $launcher) });
    is(worker_pid($node), $worker, 'the worker stayed');
    for my $round (1 .. 4)
    {
        $worker = worker_pid($node);
        $node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
        within(2, "worker ended $round times in a row: back", sub { worker_pid($node, not => $worker) });
    }
    refund('after-launcher');
    confirmed_once('and sends', 'after-launcher');
};

subtest 'settings' => sub {
    $node->safe_psql('postgres', 'CREATE DATABASE second');
    create_ledger('second');
    worker_pid($node, database => 'second');
    $node->safe_psql('postgres', q{ALTER SYSTEM SET op_ledger.databases = 'postgres, elsewhere'});
    $node->reload;
    within(3, 'a database that is not on the list loses its worker', sub { no_worker($node, database => 'second') });
    ok(worker_pid($node), 'one that is keeps it');
    my ($rc, $out, $err) = $node->psql('second', 'SELECT state FROM ' . call_of('unlisted') . '; SELECT state FROM ' . call_of('unlisted-2'));
    is($out, "pending\npending", 'submits are recorded');
    is(() = $err =~ /WARNING/g, 1, 'with one warning a session');
    is($node->safe_psql('second', q{SELECT status FROM op_health() WHERE check_name = 'worker'}), 'critical', 'op_health says so');
    $node->safe_psql('postgres', q{ALTER SYSTEM RESET op_ledger.databases});
    $node->reload;
    ok($elsewhere->wait(requests => 1, kind => 'send', op => 'unlisted-2'), 'and sent when it is listed again');
};

subtest 'statistics' => sub {
    $node->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum = on');
    $node->reload;
    refund("counted-$_") for 1 .. 30;
    confirmed_once('thirty', map { "counted-$_" } 1 .. 30);
    ok(wait_sql($node, q{SELECT n_tup_upd >= 60 FROM pg_stat_user_tables WHERE relname = 'op_operation'}, 'statistics'), 'updates of the worker are reported');
    ok(wait_sql($node, q{SELECT last_autovacuum IS NOT NULL FROM pg_stat_user_tables WHERE relname = 'op_operation'}, 'autovacuum'), 'autovacuum saw them');
};

# The launcher takes one slot, the first worker the other.
subtest 'no worker slot is free' => sub {
    $node->safe_psql('postgres', q{ALTER SYSTEM SET max_worker_processes = 2});
    $node->safe_psql('postgres', q{ALTER SYSTEM SET op_ledger.databases = 'postgres'});
    $node->restart;
    worker_pid($node);
    my $since = log_position($node);
    $node->safe_psql('postgres', q{ALTER SYSTEM RESET op_ledger.databases});
    $node->reload;
    ok($node->wait_for_log(qr/WARNING:.*no free background worker/, $since), 'the log says so');
    my $session = $node->background_psql('second');
    my ($out, $failed) = $session->query('SELECT state FROM ' . call_of('no-slot'));
    is($out, 'pending', 'op_submit commits');
    like($session->{stderr}, qr/WARNING:.*no worker runs/, 'with a warning');
    $session->{stderr} = '';
    $session->query_safe('SELECT state FROM ' . call_of('no-slot-2'));
    $session->quit;
    like($node->safe_psql('second', q{SELECT status, hint FROM op_health() WHERE check_name = 'worker'}), qr/critical.*max_worker_processes/, 'op_health has the hint');
    # The launcher tries every second.
    wait_turns(3);
    is(() = log_since($node, $since) =~ /no free background worker/g, 1, 'said once');
    within(5, 'a worker starts when a slot is freed', sub {
        $node->safe_psql('postgres', q{ALTER SYSTEM SET op_ledger.databases = 'second'});
        $node->reload;
        worker_pid($node, database => 'second');
    });
    ok($elsewhere->wait(requests => 1, kind => 'send', op => 'no-slot-2'), 'and what waited is sent');
};

check_invariants($node, $double);
is(join(' ', grep { $elsewhere->effects->{living}{$_} > 1 } sort keys %{ $elsewhere->effects->{living} }), '', 'and none twice in other databases');

subtest 'not preloaded' => sub {
    $node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
    $node->stop;
    $node->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
    $node->start;
    my ($rc, $out, $err) = $node->psql('postgres', 'SELECT state FROM ' . call_of('unloaded') . '; SELECT state FROM ' . call_of('unloaded'));
    is($out, "pending\npending", 'op_submit records');
    like($err, qr/WARNING:.*no worker runs.*HINT:.*shared_preload_libraries/s, 'and says that nobody sends');
    is(() = $err =~ /WARNING/g, 1, 'once a session');
    like($node->safe_psql('postgres', q{SELECT status, detail FROM op_health() WHERE check_name = 'worker'}), qr/critical.*not preloaded/, 'op_health says it, too');
    is($node->safe_psql('postgres', q{SELECT state FROM op_wait('unloaded', '10 ms')}), 'pending', 'op_wait waits');

    my $dump = PostgreSQL::Test::Utils::tempdir('dump') . '/dump.sql';
    $node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'a dump');
    $node->safe_psql('postgres', 'CREATE DATABASE restored');
    $node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-o', "$dump.out", $node->connstr('restored') ], 'restores');
    my $counts = 'SELECT (SELECT count(*) FROM op_operation), (SELECT count(*) FROM op_request), (SELECT count(*) FROM op_attempt), (SELECT count(*) FROM op_provider)';
    is($node->safe_psql('restored', $counts), $node->safe_psql('postgres', $counts), 'whole');
    is($node->safe_psql('restored', 'SELECT count(*) FROM op_due'), 0, 'without an agenda');
};

$node->stop;
done_testing();
