# Eight sessions that submit, repeat, cancel, wait, and hold rows and transactions open, beside a worker
# that drains what they submit: nobody deadlocks, the worker waits for nobody, and every operation ends.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run ();
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant SECONDS => 12;

my $double = start_provider();
my $node   = new_node(name => 'stress');

# One lookup at a time, so that a row that is held is in everybody's way.
add_provider($node, 'bank', double => $double, spec => { concurrency => 4, retry => { attempts => 50, base => 1 } });
sub query { return $node->safe_psql('postgres', $_[0]); }

sub refund { return submit($node, $_[0], 'bank.refund', { payment_intent => "pi_$_[0]", amount => 1 }); }

# A session that keeps a row of op_operation until it is told to let go.
sub hold
{
    my ($op) = @_;
    my $session = $node->background_psql('postgres');
    $session->query_safe("BEGIN; SELECT op_id FROM op_operation WHERE op_id = '$op' FOR UPDATE");
    return $session;
}

sub let_go
{
    my ($session) = @_;
    $session->query_safe('COMMIT');
    $session->quit;
    return;
}

# Hundredths of a second that a process has computed.
sub cpu_time
{
    my ($pid) = @_;
    my @fields = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //r;
    return $fields[11] + $fields[12];
}

subtest 'an answer whose row is held waits without work' => sub {
    $double->script({ match => { op => 'answered' }, do => { delay_after => 'gate' } });
    refund('answered');
    $double->wait(waiting => 1, op => 'answered');
    my $holder = hold('answered');
    $double->release('gate');
    ok(wait_sql($node, q{SELECT detail LIKE 'an answer waits%' FROM op_health() WHERE check_name = 'row_lock'}, 'op_health'), 'op_health tells of it');
    my $worker = worker_pid($node);
    my $before = cpu_time($worker);
    query('SELECT pg_sleep(1)');
    cmp_ok(cpu_time($worker) - $before, '<', 30, 'the worker does not spin');
    let_go($holder);
    wait_state($node, 'answered', 'confirmed');
    is(scalar attempts($node, 'answered'), 1, 'by that answer');
};

subtest 'an operation that is held is in nobody\'s way' => sub {
    my @first = ({ kind => 'send', op => 'first' }, { kind => 'lookup', contains => 'pi_first' });
    $double->script({ match => $first[0], do => 'drop' }, { match => $first[1], do => { answer => { status => 500 } }, times => 2 });
    refund('first');
    wait_sql($node, q{SELECT state = 'unknown' FROM op_operation WHERE op_id = 'first'}, 'first to be unknown');
    my $holder = hold('first');
    my $due = query(q{SELECT due_at FROM op_due WHERE op_id = 'first'});
    wait_sql($node, "SELECT due_at <> '$due' OR due_at < clock_timestamp() FROM op_due WHERE op_id = 'first'", 'its lookup to have been due');
    $double->script({ match => { kind => 'send', op => 'second' }, do => 'drop' });
    refund('second');
    wait_state($node, 'second', 'confirmed', 'another one is looked up, though there is but one place for lookups');
    let_go($holder);
    wait_state($node, 'first', 'confirmed');
};
$double->clear_script;

$double->script(
    { match => { kind => 'send', probability => 0.1 }, do => 'drop', times => 'always' },
    { match => { kind => 'send', probability => 0.05 }, do => { effect => false, answer => { status => 503 } }, times => 'always' },
    { match => { kind => 'send' }, do => { delay_answer => 0.04 }, times => 'always' });

query(q{
    CREATE TABLE surprise (sqlstate text, message text);

    -- Errors that belong to the game are passed over, all others are remembered.
    CREATE FUNCTION try(command text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE command;
    EXCEPTION
        WHEN SQLSTATE 'OL001' OR SQLSTATE 'OL007' OR serialization_failure THEN NULL;
        WHEN OTHERS THEN INSERT INTO surprise VALUES (SQLSTATE, SQLERRM);
    END $$;

    CREATE FUNCTION submit(i int) RETURNS op_receipt LANGUAGE sql AS
        $$ SELECT op_submit('op-' || i, 'bank.refund', jsonb_build_object('payment_intent', 'pi_' || i, 'amount', i)) $$;

    -- The longest wait of the worker that can be seen from outside.
    CREATE FUNCTION watch_worker(worker int, seconds int) RETURNS numeric LANGUAGE plpgsql AS $$
    DECLARE
        longest interval := '0';
        ends    timestamptz := clock_timestamp() + make_interval(secs => seconds);
    BEGIN
        WHILE clock_timestamp() < ends LOOP
            longest := greatest(longest, (SELECT max(clock_timestamp() - waitstart) FROM pg_locks WHERE pid = worker AND NOT granted));
            PERFORM pg_sleep(0.003);
        END LOOP;
        RETURN extract(epoch FROM longest) * 1000;
    END $$});

# What sessions do, and how often. An id out of 4,000 is new at first, and known later.
my %scripts = (
    submit => [ 20, 'SELECT submit(:i);' ],
    repeat => [ 10, "SELECT submit(1 + :i % 50);" ],
    cancel => [ 10, q{
        SELECT try(format('SELECT op_cancel(%L)', coalesce((SELECT max(op_id) FROM op_due), 'op-' || :i)));} ],
    wait   => [ 8,  q{SELECT try(format('SELECT op_wait(%L, ''100 ms'')', 'op-' || :i));} ],
    status => [ 5,  q{SELECT try(format('SELECT op_status(%L), op_timeline(%1$L)', 'op-' || :i));} ],
    hold   => [ 8,  q{
        BEGIN;
        SELECT op_id FROM op_operation WHERE op_id IN ('op-' || :i, 'op-' || :i + 1, 'op-' || :i - 1) ORDER BY op_id FOR UPDATE;
        SELECT pg_sleep(:ms / 1000.0);
        COMMIT;} ],
    hold_live => [ 8, q{
        BEGIN;
        SELECT o.op_id FROM op_operation o WHERE op_id = (SELECT min(op_id) FROM op_due) FOR NO KEY UPDATE;
        SELECT pg_sleep(:ms / 1000.0);
        COMMIT;} ],
    share  => [ 4,  q{
        BEGIN;
        SELECT op_id FROM op_operation WHERE op_id = 'op-' || :i FOR SHARE;
        SELECT pg_sleep(:ms / 1000.0);
        ROLLBACK;} ],
    submit_and_think => [ 6, q{
        BEGIN;
        SELECT submit(:i);
        SELECT pg_sleep(:ms / 1000.0);
        COMMIT;} ],
    submit_and_regret => [ 6, q{
        BEGIN;
        SAVEPOINT a;
        SELECT submit(:i);
        ROLLBACK TO a;
        SELECT submit(:i);
        SELECT pg_sleep(:ms / 1000.0);
        ROLLBACK;} ],
    cancel_and_think => [ 6, q{
        BEGIN;
        SELECT try(format('SELECT op_cancel(%L)', 'op-' || :i));
        SELECT pg_sleep(:ms / 1000.0);
        COMMIT;} ],
    cancel_and_regret => [ 6, q{
        BEGIN;
        SELECT try(format('SELECT op_cancel(%L)', 'op-' || :i));
        SELECT pg_sleep(:ms / 1000.0);
        ROLLBACK;} ],
    snapshot => [ 5, q{
        BEGIN ISOLATION LEVEL REPEATABLE READ;
        SELECT count(*) FROM op_due;
        SELECT try('SELECT submit(' || :i || ')');
        SELECT try(format('SELECT op_cancel(%L)', 'op-' || :i + 7));
        COMMIT;} ],
    lock_table => [ 1, q{
        BEGIN;
        LOCK TABLE op_due;
        SELECT pg_sleep(0.3);
        COMMIT;} ],
    vacuum => [ 1, 'VACUUM op_due, op_operation, op_nudge;' ],
);

sub pgbench_command
{
    my @files;
    for my $name (sort keys %scripts)
    {
        my ($weight, $sql) = @{ $scripts{$name} };
        my $file = "$PostgreSQL::Test::Utils::tmp_check/stress_$name.sql";
        open my $fh, '>', $file or die "$file: $!";
        print $fh "\\set i random(1, 4000)\n\\set ms random(1, 60)\n$sql\n";
        close $fh;
        push @files, '-f', "$file\@$weight";
    }
    return ('pgbench', qw(-n -c 8 -j 2 -T), SECONDS, '--random-seed', $ENV{STRESS_SEED} || time, @files, $node->connstr('postgres'));
}

sub worker_info { return query("SELECT $_[0] FROM _op_worker()"); }

my $worker  = worker_pid($node);
my $epoch   = worker_info('epoch');
my $watcher = $node->background_psql('postgres');
$watcher->query_until(qr/go/, sprintf "\\echo go\nSELECT watch_worker(%d, %d);\n", $worker, SECONDS);

my ($out, $err) = ('', '');
my @command = pgbench_command();
note("@command");
ok(IPC::Run::run(\@command, '>', \$out, '2>', \$err), 'eight sessions at work') or diag("$out\n$err");
unlike($err, qr/aborted|error/i, 'none was thrown out');
note($out);

my $drained = query(q{SELECT count(*) FROM op_operation WHERE state = 'confirmed'});
cmp_ok($drained, '>', 100, "the worker went on meanwhile: $drained confirmed");
my ($longest) = $watcher->query_safe('SELECT 0') =~ /([\d.]+)/;
$watcher->quit;
cmp_ok($longest, '>', 0, 'a table that is locked keeps it waiting, so this measures something');
cmp_ok($longest, '<', 150, "but not longer than its lock_timeout, as far as a busy machine can tell: $longest ms");

ok(wait_sql($node, 'SELECT NOT EXISTS (SELECT FROM op_due)', 'the agenda to be empty'), 'everything that was submitted came to an end')
  or diag(query('SELECT o.state, o.reason, count(*) FROM op_operation o JOIN op_due USING (op_id) GROUP BY 1, 2'));
is(query(q{
    SELECT string_agg(DISTINCT concat_ws(' ', state, reason), ', ') FROM op_operation
    WHERE state NOT IN ('cancelled', 'confirmed') AND (state, reason) IS DISTINCT FROM ('failed', 'withdrawn')}),
    '', 'in the ways that are expected');
note(query(q{SELECT string_agg(state || ' ' || count, ', ') FROM (SELECT state, count(*) FROM op_operation GROUP BY state) AS s}));
is($double->effects->{total}, query(q{SELECT count(*) FROM op_operation WHERE state = 'confirmed'}), 'an effect for each that is confirmed');
is(query('SELECT string_agg(DISTINCT concat_ws($$: $$, sqlstate, message), $$, $$) FROM surprise'), '', 'no error that was not expected');
is(query(q{SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'}), 0, 'no deadlock');
is(worker_info('epoch'), $epoch, 'the worker never had to come back');
is(worker_info('failed_turns'), 0, 'no turn of the worker failed');
is(query(q{SELECT status FROM op_health() WHERE check_name = 'turns'}), 'ok', 'op_health is content');
check_invariants($node, $double);

my $log = slurp_file($node->logfile);
unlike($log, qr/deadlock detected|PANIC|TRAP|was terminated by signal/, 'nor does the log tell of any');
unlike($log, qr/\[$worker\] (ERROR|WARNING|FATAL)/, 'nor of an error of the worker');
done_testing();
