# Standbys: one that a commit waits for and that is gone, and one that follows. What a promoted one does is
# in 092_promotion.pl.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double  = start_provider();
my $primary = new_node(name => 'primary', init => { allows_streaming => 1 });

# A worker that is later than a second after its claim does not send. Keys are not remembered.
$double->config(stores => 'nothing');
add_provider($primary, 'bank', double => $double, spec => { key => { stores => 'nothing', margin => '1 s' } });

# We ourselves wait for nobody.
sub refund
{
    my ($op, $node) = @_;
    return ($node || $primary)->safe_psql('postgres', qq{
        SET synchronous_commit = local;
        SELECT state FROM op_submit('$op', 'bank.refund', '{"payment_intent": "pi_$op", "amount": 5}')});
}

sub sends { return scalar sends_of($double, $_[0]); }

sub wait_for_standby
{
    my ($names) = @_;
    $primary->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = '$names'");
    $primary->reload;
    wait_sql($primary, "SELECT setting = '$names' FROM pg_settings WHERE name = 'synchronous_standby_names'", 'the reload');
    return;
}

# The worker's commit waits, and has done so for that many milliseconds.
sub commit_waits
{
    my ($ms) = @_;
    $ms ||= 0;
    return wait_sql($primary, qq{
        SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'op_ledger worker'
           AND wait_event = 'SyncRep' AND xact_start < clock_timestamp() - interval '$ms ms'}, 'a commit that waits');
}

subtest 'the mark waits for a standby that is gone' => sub {
    worker_pid($primary);
    wait_for_standby('gone');
    refund('late');
    ok(commit_waits(), 'the commit of the claim waits');
    my $start = worker_row($primary)->{xact_start};
    $primary->safe_psql('postgres', 'SELECT pg_cancel_backend(' . worker_pid($primary) . ')');
    ok(commit_waits(1500), 'longer than the margin');
    is(worker_row($primary)->{xact_start}, $start, 'pg_cancel_backend does not end the wait');
    is(sends('late'), 0, 'nothing is sent meanwhile');

    wait_for_standby('');
    wait_state($primary, 'late', 'confirmed');
    my @attempts = attempts($primary, 'late');
    is(join(', ', map { "$_->{kind} $_->{verdict} " . ($_->{reason} // '') } @attempts), 'send not_sent too_late, send confirmed ok', 'too late for this claim, and claimed again');
    is(sends('late'), 1, 'sent once');
};

subtest 'a worker is ended while its commit waits' => sub {
    my $worker = worker_pid($primary);
    wait_for_standby('gone');
    refund('ended');
    ok(commit_waits(), 'the commit waits');
    within(2, 'pg_terminate_backend', sub {
        $primary->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
        no_worker($primary, pid => $worker);
    });
    is(sends('ended'), 0, 'nothing was sent');
    is((attempts($primary, 'ended'))[0]{verdict}, 'not_sent', 'that much is known');
    isnt(worker_pid($primary), $worker, 'another worker is there');
    wait_for_standby('');
    wait_state($primary, 'ended', 'confirmed');
    is(sends('ended'), 1, 'sent once');
};

subtest 'a fast stop while the commit waits' => sub {
    worker_pid($primary);
    wait_for_standby('gone');
    refund('stopped');
    ok(commit_waits(), 'the commit waits');
    within(5, 'pg_ctl stop -m fast', sub { $primary->stop('fast') });
    is(sends('stopped'), 0, 'nothing was sent');
    $primary->start;
    ok(commit_waits(1200), 'the next worker waits as well');
    is(sends('stopped'), 0, 'before it sends');
    within(5, 'a fast stop right then', sub { $primary->stop('fast') });
    $primary->start;
    wait_for_standby('');
    wait_state($primary, 'stopped', 'confirmed');
    is(sends('stopped'), 1, 'sent once');
};

# A weaker setting is raised, a stronger one is kept, also when it comes by reload.
subtest 'synchronous_commit' => sub {
    $primary->safe_psql('postgres', 'ALTER SYSTEM SET synchronous_commit = off');
    $primary->restart;
    wait_for_standby('gone');
    refund('local');
    wait_state($primary, 'local', 'confirmed', 'off: the disk is enough');
    $primary->safe_psql('postgres', 'ALTER SYSTEM RESET synchronous_commit');
    $primary->reload;
    wait_sql($primary, q{SELECT setting = 'on' FROM pg_settings WHERE name = 'synchronous_commit'}, 'the reload');
    refund('remote');
    ok(commit_waits(), 'on: the standby is waited for');
    is(sends('remote'), 0, 'before anything is sent');
    wait_for_standby('');
    wait_state($primary, 'remote', 'confirmed');
};

subtest 'a standby that follows' => sub {
    $primary->backup('base');
    my $standby = PostgreSQL::Test::Cluster->new('standby');
    $standby->init_from_backup($primary, 'base', has_streaming => 1);
    $standby->start;
    my $since = log_position($standby);
    $double->script({ match => { op => 'watched' }, do => { delay_answer => 'watched' } });
    refund('watched');
    $double->wait(waiting => 1, op => 'watched');
    $primary->wait_for_catchup($standby);

    is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'op_ledger%'}), 0, 'no launcher, no worker');
    is(sqlstate_of($standby, q{SELECT op_submit('here', 'bank.refund', '{"payment_intent": "pi_here", "amount": 5}')}), '25006', 'op_submit: read-only transaction');
    is(sqlstate_of($standby, q{SELECT op_submit('watched', 'bank.refund', '{"payment_intent": "pi_watched", "amount": 5}')}), '25006', 'of an operation that exists, too');
    is(state_of($standby, 'watched'), 'submitted', 'op_status reads');
    is($standby->safe_psql('postgres', q{SELECT state FROM op_wait('watched', '10 ms')}), 'submitted', 'op_wait waits');
    cmp_ok($standby->safe_psql('postgres', q{SELECT count(*) FROM op_timeline('late')}), '>', 2, 'op_timeline tells');
    is($standby->safe_psql('postgres', q{SELECT string_agg(DISTINCT status, ' ') FROM op_health()}), 'ok', 'op_health: all is well');
    like($standby->safe_psql('postgres', q{SELECT detail FROM op_health() WHERE check_name = 'worker'}), qr/standby/, 'and why there is no worker');
    my $waiting = $standby->background_psql('postgres');
    $waiting->query_until(qr/waits/, "\\echo waits\nSELECT state FROM op_wait('watched', '30 s');\n");
    $double->release('watched');
    is($waiting->query_safe(''), 'confirmed', 'op_wait sees what the primary did');
    $waiting->quit;
    unlike(log_since($standby, $since), qr/op_ledger.*(WARNING|FATAL|PANIC)|(WARNING|FATAL|PANIC).*op_ledger/, 'nothing in its log');

    refund('inherited');
    wait_state($primary, 'inherited', 'confirmed');
    $primary->wait_for_catchup($standby);
    $primary->stop;
    my $before = () = $double->requests;
    $standby->promote;
    within(3, 'after the promotion there is a worker', sub { worker_pid($standby) });
    is(refund('after', $standby), 'pending', 'it records');
    wait_sql($standby, q{SELECT turn_at > started_at + interval '1.5 s' FROM _op_worker()}, 'turns');
    is(scalar(() = $double->requests), $before, 'and sends nothing');
    like($standby->safe_psql('postgres', q{SELECT status || ' ' || detail FROM op_health() WHERE check_name = 'home'}), qr/critical .*promoted/, 'op_health says why');
    $standby->stop;
};

$primary->start;
check_invariants($primary, $double);
$primary->stop;
done_testing();
