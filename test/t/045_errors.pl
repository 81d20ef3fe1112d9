# Whatever goes wrong inside the worker - an error in any step, locks, settings of others, signals at any
# moment, a name server that never answers - it goes on, loses nothing, sends nothing twice, and can be stopped.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# Settings of roles and databases are for the worker here, not for us.
$ENV{PGOPTIONS} = join ' ', map { "-c $_" } 'statement_timeout=0', 'lock_timeout=0', 'default_transaction_read_only=off',
  'default_transaction_isolation=read\ committed', 'search_path=public', 'role=none', 'synchronous_commit=on', 'session_replication_role=origin';

my ($cert, $key) = certificate();
my $double = start_provider(cert => $cert, key => $key);

# Names under .black-hole are never resolved, and nobody says so.
my $resolver = black_hole();
my $node;
{
    local $ENV{LD_PRELOAD} = $resolver;
    $node = new_node(name => 'errors');
}

# Keys are not remembered: whatever is sent again as if it were new is a second effect.
$double->config(stores => 'nothing');
my %spec = (key => { stores => 'nothing' }, timeout => { connect => '1 s', total => '10 s', flight => '1 s' });
add_provider($node, 'bank', double => $double, spec => \%spec);
add_provider($node, 'tls', url => $double->tls_url, spec => { %spec, tls => { ca => $cert } });
add_provider($node, 'nowhere', url => 'http://bank.black-hole', spec => { timeout => { connect => '1 s', total => '1 s' } });
add_provider($node, 'patient', url => 'http://bank.black-hole', spec => { timeout => { connect => '20 s', total => '20 s' } });

sub black_hole
{
    my $dir = PostgreSQL::Test::Utils::tempdir('resolver');
    $dir = POSIX::getcwd() . "/$dir" unless $dir =~ m{^/};
    PostgreSQL::Test::Utils::append_to_file("$dir/resolver.c", q{
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <netdb.h>
        #include <string.h>
        #include <unistd.h>
        int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
        {
            int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
            if (node && strstr(node, ".black-hole"))
            {
                sleep(30);
                return EAI_AGAIN;
            }
            return real(node, service, hints, out);
        }});
    PostgreSQL::Test::Utils::system_or_bail('gcc', '-shared', '-fPIC', '-o', "$dir/resolver.so", "$dir/resolver.c", '-ldl');
    return "$dir/resolver.so";
}

# A trigger that raises for the operations and states named, or takes their rows away.
sub poison
{
    my ($table, $when, $sqlstate) = @_;
    my $event = $table eq 'op_attempt' ? 'INSERT' : 'UPDATE';
    $sqlstate ||= 'P0001';
    my $deed = $sqlstate eq 'none' ? 'RETURN NULL' : "RAISE EXCEPTION 'poison in %', NEW.op_id USING ERRCODE = '$sqlstate'";
    $node->safe_psql('postgres', qq{
        CREATE OR REPLACE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN $deed; END\$\$;
        CREATE TRIGGER poison BEFORE $event ON $table FOR EACH ROW WHEN ($when) EXECUTE FUNCTION poison()});
    return;
}

sub cure
{
    my ($table) = @_;
    $node->safe_psql('postgres', "DROP TRIGGER poison ON $table");
    return;
}

sub sends { return scalar sends_of($double, $_[0]); }

sub sent_twice
{
    my %count;
    $count{ $_->{op} }++ for $double->requests(kind => 'send');
    return join ' ', grep { $count{$_} > 1 } sort keys %count;
}

# An error in each step, of one operation among a hundred.
subtest 'one that fails always' => sub {
    my %steps = (
        claim   => [ 'op_operation', q{NEW.op_id = 'claim-50' AND NEW.state = 'submitted'}, 0 ],
        attempt => [ 'op_attempt',   q{NEW.op_id = 'attempt-50'}, 1 ],
        result  => [ 'op_operation', q{NEW.op_id = 'result-50' AND NEW.state = 'confirmed'}, 1 ],
        always  => [ 'op_operation', q{NEW.op_id = 'always-50'}, 0 ],
        mark    => [ 'op_operation', q{NEW.op_id = 'mark-50' AND NEW.state = 'submitted'}, 0, 'none' ],
        lease   => [ 'op_due',       q{NEW.op_id = 'lease-50' AND NEW.epoch IS NOT NULL}, 0, 'none' ],
    );
    for my $step (sort keys %steps)
    {
        my ($table, $when, $sent, $sqlstate) = @{ $steps{$step} };
        my $since = log_position($node);
        poison($table, $when, $sqlstate);
        submit_many($node, $step, 'bank.refund', 100);
        all_ended($node, "$step-", 'confirmed', 99, "$step: the others finish");
        wait_state($node, "$step-50", 'review', "$step: it is handed to a person") unless $step eq 'always';
        is(state_of($node, "$step-50"), 'pending', "$step: it waits") if $step eq 'always';
        is(sends("$step-50"), $sent, "$step: sent $sent times");
        my @lines = split /\n/, complaints($node, $since, 'ERROR|WARNING');
        cmp_ok(scalar @lines, '<=', 3, "$step: a line or two in the log");
        cure($table);
    }
    is($node->safe_psql('postgres', q{SELECT status FROM op_health() WHERE check_name = 'turns'}), 'warning', 'op_health tells of failed turns');
    wait_state($node, 'always-50', 'confirmed', 'cured, it is sent');
    wait_state($node, 'result-50', 'confirmed', 'cured, the answer is recorded');
    is((attempts($node, 'result-50'))[0]{verdict}, 'confirmed', 'with its own evidence');
    is((attempts($node, 'attempt-50'))[0]{verdict}, 'confirmed', 'so is the other one') if wait_state($node, 'attempt-50', 'confirmed');
    is(sent_twice(), '', 'nothing was sent as fresh');
};

# The same for everything, and not the fault of any operation.
subtest 'the world fails for a while' => sub {
    for my $sqlstate ('53100', '40P01', '57014')
    {
        my $since = log_position($node);
        my $failed = $node->safe_psql('postgres', 'SELECT failed_turns FROM _op_worker()');
        poison('op_attempt', 'true', $sqlstate);
        submit_many($node, "world-$sqlstate", 'bank.refund', 20);
        ok(wait_sql($node, "SELECT failed_turns >= $failed + 5 FROM _op_worker()", 'failing turns'), "$sqlstate: turns fail");
        is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT state, ' ') FROM op_operation WHERE op_id LIKE 'world-$sqlstate-%' AND state NOT IN ('pending', 'submitted')"), '', "$sqlstate: nothing is decided");
        cure('op_attempt');
        all_ended($node, "world-$sqlstate-", 'confirmed', 20, "$sqlstate: all are confirmed when it is over");
        is(() = complaints($node, $since, 'ERROR') =~ /\n/g, 0, "$sqlstate: one line in the log");
    }
    is(sent_twice(), '', 'nothing was sent twice');
};

# Locks on tables, as ALTER TABLE, VACUUM FULL or a backup tool take them: the worker tries, and does not wait.
subtest 'a session locks the tables' => sub {
    my $since = log_position($node);
    for my $table (qw(op_attempt op_operation op_due op_provider))
    {
        $double->script({ match => { op => "lock-$table-1" }, do => { delay_answer => $table } });
        submit_many($node, "lock-$table", 'bank.refund', 5);
        $double->wait(waiting => 1, op => "lock-$table-1");
        my $holder = $node->background_psql('postgres');
        $holder->query_safe("BEGIN; LOCK TABLE $table IN ACCESS EXCLUSIVE MODE");
        $double->release($table);
        $double->wait(finished => 1, op => "lock-$table-1");
        my $worker = worker_pid($node);
        ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $worker AND wait_event_type = 'Lock'"), "$table: the worker does not wait");
        is($node->safe_psql('postgres', "SELECT max(clock_timestamp() - xact_start) > interval '500 ms' FROM pg_stat_activity WHERE pid = $worker") || 'f', 'f', "$table: nor holds a transaction open");
        $holder->query_safe('COMMIT');
        $holder->quit;
        all_ended($node, "lock-$table-", 'confirmed', 5, "$table: all are confirmed");
    }
    is(complaints($node, $since, 'ERROR|WARNING|FATAL'), '', 'nothing in the log');
};

# Where somebody made a column unique, an UPDATE of it waits for those who refer to the row.
subtest 'a session refers to an operation' => sub {
    $node->safe_psql('postgres', 'CREATE UNIQUE INDEX one_object ON op_operation (external_id); CREATE TABLE child (op_id text REFERENCES op_operation)');
    $double->script({ match => { op => 'parent-1' }, do => { delay_answer => 'parent' } });
    submit_many($node, 'parent', 'bank.refund', 1);
    $double->wait(waiting => 1, op => 'parent-1');
    my $holder = $node->background_psql('postgres');
    $holder->query_safe(q{BEGIN; INSERT INTO child VALUES ('parent-1')});
    $double->release('parent');
    $double->wait(finished => 1, op => 'parent-1');
    submit_many($node, 'other', 'bank.refund', 20);
    within(5, 'the others finish', sub { all_ended($node, 'other-', 'confirmed', 20, 'the others finish') });
    is(state_of($node, 'parent-1'), 'submitted', 'its answer waits');
    $holder->query_safe('COMMIT');
    $holder->quit;
    wait_state($node, 'parent-1', 'confirmed', 'and is recorded');
    $node->safe_psql('postgres', 'DROP INDEX one_object; DROP TABLE child');
};

# The same for a worker that starts. Each end of one is in the log, beginning with the one that is terminated.
subtest 'a session locks what a worker needs to start' => sub {
    $node->append_conf('postgresql.conf', 'log_min_messages = debug1');
    $node->reload;
    my $since  = log_position($node);
    my $worker = worker_pid($node);
    my $holder = $node->background_psql('postgres');
    $holder->query_safe('BEGIN; ALTER SEQUENCE op_epoch INCREMENT 1');
    $node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
    ok($node->wait_for_log(qr/(?:"op_ledger worker" .* exited with.*){3}/s, $since), 'it is tried twice');
    $holder->query_safe('COMMIT');
    $holder->quit;
    within(3, 'a worker', sub { worker_pid($node) });
    is(complaints($node, $since, 'ERROR|WARNING|FATAL'), '', 'nothing in the log');
    $node->append_conf('postgresql.conf', 'log_min_messages = warning');
    $node->reload;
};

# Answers are in hand that cannot be written.
subtest 'a stop while turns fail' => sub {
    my $failed = $node->safe_psql('postgres', 'SELECT failed_turns FROM _op_worker()');
    poison('op_attempt', 'true');
    submit_many($node, 'stopped', 'bank.refund', 10);
    wait_sql($node, "SELECT failed_turns >= $failed + 3 FROM _op_worker()", 'failing turns');
    within(5, 'a fast stop', sub { $node->stop('fast') });
    {
        local $ENV{LD_PRELOAD} = $resolver;
        $node->start;
    }
    cure('op_attempt');
    all_ended($node, 'stopped-', 'confirmed', 10, 'the next worker finds them');
    is(sent_twice(), '', 'nothing was sent twice');
};

# Every setting that reaches the worker by ALTER DATABASE or ALTER ROLE.
subtest 'settings of the database and the role' => sub {
    my @settings = ("default_transaction_isolation = 'serializable'", 'default_transaction_read_only = on', 'default_transaction_deferrable = on',
        'synchronous_commit = off', "statement_timeout = '1ms'", "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '1ms'",
        "search_path = 'nowhere'", "session_replication_role = 'replica'", 'row_security = off', 'enable_indexscan = off',
        "DateStyle = 'German'", "TimeZone = 'Asia/Taipei'", "bytea_output = 'escape'", "IntervalStyle = 'iso_8601'", 'extra_float_digits = -15');
    # Its name before PostgreSQL 16, and since.
    push @settings, $node->safe_psql('postgres', "SELECT name || ' = on' FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')");
    my $me = $node->safe_psql('postgres', 'SELECT current_user');
    $node->safe_psql('postgres', "CREATE ROLE nobody");
    $node->safe_psql('postgres', "ALTER DATABASE postgres SET $_") for @settings, "role = 'nobody'", "session_authorization = 'nobody'";
    $node->safe_psql('postgres', "ALTER ROLE $me SET $_") for @settings;
    my $worker = worker_pid($node);
    $node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
    worker_pid($node, not => $worker);

    my $file = PostgreSQL::Test::Utils::tempdir('pgbench') . '/submit.sql';
    PostgreSQL::Test::Utils::append_to_file($file, q{\set n random(1, 1000000000000)
SELECT op_submit('written-' || :client_id || '-' || :n, 'bank.refund', jsonb_build_object('payment_intent', 'pi_' || :client_id || '_' || :n, 'amount', 1));
});
    local $ENV{PGOPTIONS} = "$ENV{PGOPTIONS} -c default_transaction_isolation=serializable";
    $node->command_ok([ 'pgbench', '-n', '-c', '4', '-t', '50', '--max-tries', '10', '-f', $file, $node->connstr('postgres') ], 'four writers');
    all_ended($node, 'written-', 'confirmed', 200, 'all finish');
    is(sent_twice(), '', 'once');
    $node->safe_psql('postgres', 'ALTER DATABASE postgres RESET ALL');
    $node->safe_psql('postgres', "ALTER ROLE $me RESET ALL");
};

subtest 'signals at any moment' => sub {
    my $since = log_position($node);
    my $ops   = 400;
    srand(1);
    $double->script({ match => { contains => 'signal' }, do => { delay_before => 0.05 }, times => 'always' });
    my $worker = worker_pid($node);
    submit_many($node, 'signal', 'tls.refund', $ops);
    for my $n (1 .. 400)
    {
        my $signal = $n % 25 == 0 ? 'TERM' : qw(HUP USR1 INT)[ rand 3 ];
        usleep(rand 6000);
        kill $signal => $worker;
        $worker = worker_pid($node, not => $worker) if $signal eq 'TERM';
    }
    all_ended($node, 'signal-', 'confirmed', $ops);
    is(sent_twice(), '', 'once');
    unlike(log_since($node, $since), qr/PANIC|FATAL|terminated by signal/, 'nothing crashed');
    is(worker_pid($node, not => -1), $worker, 'the last worker lives');
};

# The calls that hang are in threads of the worker: neither the others nor a stop wait for them.
subtest 'a name server that never answers' => sub {
    submit_many($node, 'dead', 'nowhere.refund', 20);
    within(2, 'another provider is served meanwhile', sub {
        submit_many($node, 'alive', 'bank.refund', 20);
        all_ended($node, 'alive-', 'confirmed', 20);
    });
    ok(wait_sql($node, q{SELECT count(DISTINCT op_id) = 20 FROM op_attempt WHERE op_id LIKE 'dead-%'}, 'attempts'), 'its own attempts end');
    is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT verdict || ' ' || reason, ', ') FROM op_attempt WHERE op_id LIKE 'dead-%'}), 'not_sent dns', 'as not sent');
    is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT state, ' ') FROM op_operation WHERE op_id LIKE 'dead-%' AND state NOT IN ('pending', 'submitted')}), '', 'and wait for another try');

    submit_many($node, 'gone', 'patient.refund', 20);
    ok(wait_sql($node, q{SELECT count(*) > 0 FROM op_operation WHERE op_id LIKE 'gone-%' AND state = 'submitted'}, 'the claim'), 'requests wait for a name');
    my $worker = worker_pid($node);
    within(3, 'pg_terminate_backend', sub {
        $node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
        no_worker($node, pid => $worker);
    });
    worker_pid($node, not => $worker);
    submit_many($node, 'left', 'patient.refund', 20);
    ok(wait_sql($node, q{SELECT count(*) > 0 FROM op_operation WHERE op_id LIKE 'left-%' AND state = 'submitted'}, 'the claim'), 'requests wait for a name');
    within(5, 'a fast stop', sub { $node->stop('fast') });
    $node->start;
    is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT verdict || ' ' || reason, ', ') FROM op_attempt WHERE n = 1 AND op_id ~ '^(gone|left)-'}), 'not_sent stopped', 'what waited for a name was certainly not sent');
    is($node->safe_psql('postgres', q{SELECT count(*) FROM op_operation WHERE tainted AND op_id ~ '^(dead|gone|left)-'}), 0, 'and nobody need ask');
};

check_invariants($node, $double);
$node->stop;
done_testing();
