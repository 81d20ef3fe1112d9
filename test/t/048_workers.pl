# op_ledger.workers: several workers of one database share the work and a provider's places, none
# takes what another has, and what a dead one had is found again.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();
my $node = new_node(name => 'workers', conf => "op_ledger.workers = 3\n");
my $places = 7;

sub query { return $node->safe_psql('postgres', $_[0]); }

sub running { return "SELECT count(*) = $_[0] FROM _op_worker() WHERE state = 'running'"; }

$node->poll_query_until('postgres', running(3)) or die 'three workers did not start';
pass('three workers run');
is(query(q{SELECT count(DISTINCT epoch) FROM _op_worker()}), 3, 'each in an epoch of its own');
is(query(q{SELECT count(*) FROM op_health() WHERE check_name = 'worker' AND status = 'ok'}), 1, 'and op_health() says so');

add_provider($node, 'shared', double => $double, spec => { concurrency => $places });
$double->script({ match => { kind => 'send' }, do => { delay_answer => 0.02 }, times => 'always' });
OpLedger::submit_many($node, 'shared', 'shared.refund', 300);
my $most = 0;
for (1 .. 2000)
{
    my $now = query(q{SELECT count(*) FILTER (WHERE state = 'submitted') || ' ' || count(*) FILTER (WHERE state IN ('pending', 'submitted'))
                        FROM op_operation WHERE provider = 'shared'});
    my ($submitted, $open) = split ' ', $now;
    $most = $submitted if $submitted > $most;
    last unless $open;
}
OpLedger::all_ended($node, 'shared-', 'confirmed', 300);
cmp_ok($most, '<=', $places, "at most $places places were used by all together");
cmp_ok($most, '>', 3, 'more than one worker used them');
is(query(q{SELECT count(*) FROM op_attempt WHERE op_id LIKE 'shared-%'}), 300, 'each was sent once');

# One of them dies in the middle; the others go on, and its work is found again.
my $before = query(q{SELECT max(epoch) FROM _op_worker()});
OpLedger::submit_many($node, 'killed', 'shared.refund', 60);
$double->wait(requests => 310);
query(q{SELECT pg_terminate_backend(pid) FROM _op_worker() WHERE number = 1});
$node->poll_query_until('postgres', "SELECT count(*) = 3 AND max(epoch) > $before FROM _op_worker() WHERE state = 'running'")
  or die 'it did not come back';
OpLedger::all_ended($node, 'killed-', 'confirmed', 60);
check_invariants($node, $double);

$node->append_conf('postgresql.conf', 'op_ledger.workers = 1');
$node->reload;
$node->poll_query_until('postgres', running(1)) or die 'two workers did not leave';
submit($node, 'after', 'shared.refund', { payment_intent => 'pi_after', amount => 500 });
wait_state($node, 'after', 'confirmed');

done_testing();
