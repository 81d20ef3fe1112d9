# Servers that are started to be looked at, and not to work: pg_upgrade starts the old and the new cluster in
# binary upgrade mode, and a single user repairs something. Neither sends. What pg_upgrade made is a copy: it
# sends when a person adopts it.
use strict;
use warnings FATAL => 'all';

use File::Basename qw(dirname);
use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();
my $old = new_node(name => 'old');
add_provider($old, 'bank', double => $double);
my ($secrets) = $old->safe_psql('postgres', 'SHOW op_ledger.secret_dir');

sub refund { my ($node, $op) = @_; return submit($node, $op, 'bank.refund', { payment_intent => "pi_$op", amount => 500 }); }

sub workers { return $_[0]->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'op_ledger%'}); }

sub absolute { return $_[0] =~ m{^/} ? $_[0] : POSIX::getcwd() . "/$_[0]"; }

# One test: the provider has seen no request but these.
sub requests_are { my ($n, $name) = @_; local $Test::Builder::Level = $Test::Builder::Level + 1; return is(scalar $double->requests, $n, $name); }

# Something due, that nobody sends yet; and the server is down.
refund($old, 'done');
wait_state($old, 'done', 'confirmed');
$old->append_conf('postgresql.conf', 'op_ledger.enabled = off');
$old->reload;
no_worker($old);
refund($old, 'due');
$old->append_conf('postgresql.conf', 'op_ledger.enabled = on');
$old->stop;
my $sent = $double->requests;

subtest 'a single user' => sub {
    my ($out, $err) = ('', '');
    my $sql = q{SELECT 'is ' || state FROM op_submit('single', 'bank.refund', '{"payment_intent": "pi_single", "amount": 500}')
SELECT 'of the first ' || state FROM op_status('done')
SELECT 'health says ' || string_agg(check_name, ' ') FROM op_health() WHERE status = 'critical'
};
    ok(IPC::Run::run([ 'postgres', '--single', '-D', $old->data_dir, 'postgres' ], '<', \$sql, '>', \$out, '2>', \$err), 'it starts and ends') or diag($err);
    like($out, qr/is pending/, 'what it submits is recorded');
    like($err, qr/WARNING: .*"single" is recorded, but no worker runs/, 'and it is told that nobody sends it');
    like($out, qr/of the first confirmed/, 'what is known it can read');
    like($out, qr/health says worker/, 'op_health() says that no worker runs');
    requests_are($sent, 'nothing was sent');
};

# As pg_upgrade starts it, and long enough for a launcher to find the database and send.
subtest 'a server in binary upgrade mode' => sub {
    my $started = PostgreSQL::Test::Utils::system_log('pg_ctl', '-D', $old->data_dir, '-l', $old->logfile, '-w', '-o', '-b', 'start');
    is($started, 0, 'it starts');
    $old->_update_pid(1);
    is($old->safe_psql('postgres', q{SELECT count(*) FROM op_due}), 2, 'two are due');
    wait_sql($old, q{SELECT clock_timestamp() > pg_postmaster_start_time() + interval '3 s'}, 'three seconds to pass');
    is(workers($old), 0, 'neither launcher nor worker runs');
    is(submit($old, 'upgrading', 'bank.refund', { payment_intent => 'pi_upgrading', amount => 500 }), 'pending', 'what is submitted is recorded');
    requests_are($sent, 'nothing was sent');
    $old->stop;
};

my $new = PostgreSQL::Test::Cluster->new('new');
$new->init(extra => [ '--encoding=UTF8', '--no-locale' ]);
$new->append_conf('postgresql.conf', "shared_preload_libraries = 'op_ledger'\nop_ledger.secret_dir = '$secrets'\n");

subtest 'pg_upgrade' => sub {
    my $bin = dirname(`which pg_ctl`);
    my $dir = PostgreSQL::Test::Utils::tempdir('upgrade');
    my ($out, $err) = ('', '');
    my @command = ('pg_upgrade', '--no-sync', '-d', absolute($old->data_dir), '-D', absolute($new->data_dir), '-b', $bin, '-B', $bin,
        '-s', $new->host, '-p', $old->port, '-P', $new->port);
    ok(IPC::Run::run(\@command, '>', \$out, '2>', \$err, init => sub { chdir $dir or die $! }), 'it goes through') or diag("$out\n$err");
    requests_are($sent, 'nothing left either cluster');
    $new->start;
    is($new->safe_psql('postgres', q{SELECT string_agg(op_id || ' ' || state, ', ' ORDER BY op_id) FROM op_operation}),
        'done confirmed, due pending, single pending, upgrading pending', 'the ledger came along');
    is($new->safe_psql('postgres', q{SELECT string_agg(op_id, ' ' ORDER BY op_id) FROM op_due}), 'due single upgrading', 'with its agenda');
    wait_sql($new, q{SELECT count(*) = 1 FROM _op_worker() WHERE state = 'running' AND turn_at IS NOT NULL}, 'a worker to have looked');
    like($new->safe_psql('postgres', q{SELECT detail FROM op_health() WHERE check_name = 'home' AND status = 'critical'}), qr/came from elsewhere/, 'it is a copy, says op_health()');
    refund($new, 'later');
    requests_are($sent, 'and sends nothing');
    $new->safe_psql('postgres', q{SELECT op_adopt('upgraded')});
    wait_state($new, $_, 'confirmed', "$_: sent after op_adopt()") for qw(due single upgrading later);
    is($double->effects_of($_), 1, "$_ took effect once") for qw(done due single upgrading later);
    check_invariants($new, $double);
};

done_testing();
