# A worker that stands still for longer than its exchanges may last: a sibling gives them up as lost. When it goes
# on, its late answers are evidence, and nothing is in their way: no turn fails, nobody is blamed, and its places
# are free again.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();
my $node = new_node(name => 'frozen', conf => "op_ledger.workers = 2\n");
my $share = 40; # places of each of the two

# An exchange is given up margin + total + 5 s after its claim.
add_provider($node, 'bank', double => $double, spec => { concurrency => 2 * $share, timeout => { connect => '1 s', total => '4 s', flight => '2 s' } });

sub query { return $node->safe_psql('postgres', $_[0]); }

# Epoch -> process id.
sub workers { return map { split / / } split /\n/, query(q{SELECT epoch || ' ' || pid FROM _op_worker() WHERE state = 'running'}); }

sub stop_process { kill 'STOP', $_[0] or die "cannot stop $_[0]: $!"; return; }
sub continue_process { kill 'CONT', $_[0] or die "cannot continue $_[0]: $!"; return; }

# How many they are.
sub in_hand { return "SELECT count(*) FROM op_due d JOIN _op_worker() w USING (epoch) WHERE w.pid = $_[0] AND d.op_id LIKE '$_[1]%'"; }

sub late { return "SELECT count(*) FROM op_attempt WHERE kind = 'send' AND n < 0 AND op_id LIKE '$_[0]%'"; }

# Nothing went wrong so far.
sub in_peace
{
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(query(q{SELECT count(*) FROM op_event WHERE event = 'review'}), 0, "$name: no operation is blamed");
    is(query('SELECT sum(failed_turns) FROM _op_worker()'), 0, "$name: no turn failed");
    is(query('SELECT sum(in_flight) FROM _op_worker()'), 0, "$name: nothing is in hand any more");
    return;
}

$node->poll_query_until('postgres', q{SELECT count(*) = 2 FROM _op_worker() WHERE state = 'running'}) or die 'two workers did not start';
my %pid = workers();

# Its answer has come, a session keeps it from being stored, and then the worker stands still: what it has in hand
# says that it happened. The lookups of its sibling bring nothing.
subtest 'one, with an answer that confirms' => sub {
    $double->script(
        { match => { kind => 'send', op => 'one' }, do => { delay_answer => 'one' } },
        { match => { kind => 'lookup', contains => 'pi_one' }, do => '500', times => 'always' });
    submit($node, 'one', 'bank.refund', { payment_intent => 'pi_one', amount => 500 });
    $double->wait(effects => 1, op => 'one');
    my $stopped = $pid{ query(q{SELECT epoch FROM op_due WHERE op_id = 'one'}) };
    my $holder = $node->background_psql('postgres');
    $holder->query_safe(q{BEGIN; SELECT FROM op_operation WHERE op_id = 'one' FOR UPDATE});
    $double->release('one');
    wait_sql($node, "SELECT held_since IS NOT NULL FROM _op_worker() WHERE pid = $stopped", 'the answer to wait for the session');
    stop_process($stopped);
    $holder->query_safe('ROLLBACK');
    $holder->quit;
    wait_state($node, 'one', 'unknown', 'its sibling gives it up');
    is((attempts($node, 'one', kind => 'send'))[0]{reason}, 'lost', 'as lost');
    continue_process($stopped);
    wait_state($node, 'one', 'confirmed', 'the late answer confirms it');
    my ($late, $lost) = attempts($node, 'one', kind => 'send');
    is("$lost->{n} $lost->{verdict} $lost->{reason}", '1 unknown lost', 'what was on record stays');
    is("$late->{n} $late->{verdict} $late->{http_status}", '-1 confirmed 200', 'the late answer stands beside it');
    like(query(q{SELECT detail FROM op_timeline('one') WHERE n = -1}), qr/came late/, 'and the timeline says that it came late');
    in_peace('one');
};

# Forty are in the hands of one worker that stands still before their answers come.
subtest 'forty at once' => sub {
    my ($frozen, $sibling) = values %pid;
    $double->script({ match => { kind => 'send', contains => 'pi-many' }, do => { delay_answer => 'many' }, times => 'always' });
    stop_process($sibling);
    submit_many($node, 'many', 'bank.refund', $share);
    wait_sql($node, 'SELECT (' . in_hand($frozen, 'many-') . ") = $share", 'one worker to have all of them');
    stop_process($frozen);
    continue_process($sibling);
    $double->release('many');
    all_ended($node, 'many-', 'confirmed', $share, 'its sibling finds out about all of them');
    is(query(q{SELECT count(*) FROM op_attempt WHERE op_id LIKE 'many-%' AND reason = 'lost'}), $share, 'which it gave up as lost');
    continue_process($frozen);
    wait_sql($node, 'SELECT (' . late('many-') . ") = $share", 'all late answers');
    is(query(late('many-')), $share, 'all late answers are on record');
    is(query(q{SELECT count(*) FROM op_operation WHERE op_id LIKE 'many-%' AND state = 'confirmed'}), $share, 'and change nothing');
    in_peace('forty');

    # With its sibling out of the way it sends as many as before.
    $double->script({ match => { kind => 'send', contains => 'pi-after' }, do => { delay_answer => 'after' }, times => 'always' });
    stop_process($sibling);
    submit_many($node, 'after', 'bank.refund', $share);
    ok(wait_sql($node, 'SELECT (' . in_hand($frozen, 'after-') . ") = $share", 'all its places'), 'a burst fills the places that were given back');
    $double->release('after');
    all_ended($node, 'after-', 'confirmed', $share);
    continue_process($sibling);
    in_peace('after it');
};

check_invariants($node, $double);

done_testing();
