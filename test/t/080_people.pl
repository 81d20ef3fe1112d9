# People beside a running worker: whoever is first acts, nothing is overwritten, and what
# comes too late is seen.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $double = start_provider();
my $node = new_node(name => 'people');
# Quiet two seconds after a claim, while a lookup may take four.
add_provider($node, 'bank', double => $double, spec => { timeout => { total => '4 s', flight => '1 s' } },
    actions => {
        refund  => {},
        dear    => { approval => true },
        patient => { retry => { initial => '300 ms', base => 100, max => '1 h' } },
    });

sub submit_one
{
    my ($op, $action) = @_;
    return submit($node, $op, $action || 'bank.refund', { payment_intent => "pi_$op", amount => 500 });
}

sub sends { my ($op) = @_; return $double->requests(kind => 'send', op => $op); }

# (state, error)
sub verb
{
    my ($call) = @_;
    my ($rc, $out, $err) = $node->psql('postgres', "SELECT state FROM $call");
    return ($out, $err);
}

sub resolve_when_quiet
{
    my ($op, $outcome, $id) = @_;
    my ($state, $error);
    my $call = sprintf 'op_resolve(%s, %s, %s, %s)', map { sql_text($_) } $op, $outcome, $id, 'looked at the console';
    my $until = time + 30;
    do { ($state, $error) = verb($call); } while ($error =~ /before \d/ && time < $until);
    return ($state, $error);
}

# The state that the operation is in once a person has to look at it.
sub wait_review
{
    my ($op, $name) = @_;
    return wait_state($node, $op, 'review', $name);
}

sub events
{
    my ($op) = @_;
    return $node->safe_psql('postgres', 'SELECT string_agg(event, \', \' ORDER BY id) FROM op_event WHERE op_id = ' . sql_text($op));
}

subtest 'cancelled at the moment of the claim' => sub {
    my (%state, @wrong);
    my @ops = map { "moment-$_" } 1 .. 40;
    $node->safe_psql('postgres', join '', map {
        sprintf q{SELECT op_submit('%1$s', 'bank.refund', '{"payment_intent": "pi_%1$s", "amount": 5}'); SELECT pg_sleep(random() * 0.003); SELECT op_cancel('%1$s', 'changed my mind');}, $_
    } @ops);
    wait_sql($node, q{SELECT count(*) = 0 FROM op_operation WHERE op_id LIKE 'moment-%' AND state NOT IN ('confirmed', 'cancelled')}, 'the end of all');
    for my $op (@ops)
    {
        my $state = state_of($node, $op);
        $state{$state}++;
        push @wrong, "$op is $state" if ($state eq 'cancelled' ? 0 : 1) != $double->effects_of($op);
        push @wrong, "$op is $state and has " . sends($op) . ' requests' if ($state eq 'cancelled' ? 0 : 1) != sends($op);
        push @wrong, "$op: " . events($op) if ($state eq 'cancelled') != (events($op) eq 'cancel');
    }
    is("@wrong", '', 'cancelled and never sent, or sent and never cancelled');
    note(join ', ', map { "$state{$_} $_" } sort keys %state);
};

subtest 'cancelled while it is on the wire' => sub {
    $double->script({ match => { op => 'wire', kind => 'send' }, do => { delay_answer => 'wire' } });
    submit_one('wire');
    $double->wait(requests => 1, op => 'wire', kind => 'send');
    like($node->safe_psql('postgres', q{SELECT state, message FROM op_cancel('wire')}), qr/^submitted\|too late/, 'too late, outcome pending');
    my ($state, $error) = verb(q{op_resolve('wire', 'failed', NULL, 'impatient')});
    like($error, qr/is submitted and cannot be resolved/, 'and nobody says what nobody knows');
    $double->release('wire');
    wait_state($node, 'wire', 'confirmed');
};

subtest 'a person says failed, and then the provider shows it' => sub {
    $double->script(
        { match => { op => 'late', kind => 'send' }, do => 'drop' },
        { match => { kind => 'lookup', contains => 'pi_late' }, do => { delay_answer => 'late' } });
    submit_one('late');
    $double->wait(requests => 1, kind => 'lookup');
    my ($state, $error) = verb(q{op_resolve('late', 'failed', NULL, 'too early')});
    like($error, qr/cannot be resolved as failed before \d{4}-/, 'not before all is quiet; it says until when');
    ($state, $error) = resolve_when_quiet('late', 'failed', undef);
    is($state, 'failed', 'then a person may say so') or diag($error);
    $double->release('late');
    is($node->poll_query_until('postgres', q{SELECT state = 'review' AND contradiction FROM op_operation WHERE op_id = 'late'}), 1,
        'the late success is a contradiction, for a person to see');
    is(events('late'), 'resolve failed', 'what the person said is still on record');
    like($node->safe_psql('postgres', q{SELECT suggestion FROM op_review WHERE op_id = 'late'}), qr/cannot both be true/, 'op_review says so');
    is($node->safe_psql('postgres', q{SELECT count(*) FROM op_due WHERE op_id = 'late'}), 0, 'and the machine leaves it alone');
    my $id = $node->safe_psql('postgres', q{SELECT external_id FROM op_attempt WHERE op_id = 'late' AND external_id IS NOT NULL LIMIT 1});
    is((resolve_when_quiet('late', 'confirmed', $id))[0], 'confirmed', 'the person settles it');
};

subtest 'tried anew twice at once: one more request' => sub {
    $double->script({ match => { op => 'again', kind => 'send' }, do => { effect => false, answer => { status => 402, json => { error => { type => 'card_error' } } } } });
    submit_one('again');
    wait_state($node, 'again', 'failed');
    my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 2;
    $_->query_until(qr/begun/, "\\echo begun\nSELECT pg_sleep_until(date_trunc('second', clock_timestamp()) + interval '3 s'); SELECT op_reissue('again', 'the card works now');\n") for @sessions;
    $_->quit for @sessions;
    wait_state($node, 'again', 'confirmed');
    is(scalar sends('again'), 1, 'the first generation left once');
    is(scalar sends('again~2'), 1, 'the second as well');
    is(scalar sends('again~3'), 0, 'and there is no third');
    is(events('again'), 'reissue generation 2', 'one person did it');
    isnt((sends('again'))[0]{key}, (sends('again~2'))[0]{key}, 'under another key');
    is($node->safe_psql('postgres', q{SELECT count(DISTINCT key) FROM op_request WHERE op_id = 'again'}), 2, 'both keys are on record');
};

subtest 'nothing leaves before it is approved, and then these bytes' => sub {
    is(submit_one('dear', 'bank.dear'), 'held', 'held');
    is(submit_one('refused', 'bank.dear'), 'held', 'held');
    submit_one('after');
    wait_state($node, 'after', 'confirmed');
    is(sends('dear') + sends('refused'), 0, 'nothing was sent');
    my $digest = $node->safe_psql('postgres', q{SELECT digest FROM op_review WHERE op_id = 'dear' AND waits_for = 'approval'});
    is((verb("op_approve('dear', 'fine', '$digest')"))[0], 'pending', 'approved');
    is((verb(q{op_reject('refused', 'no')}))[0], 'cancelled', 'rejected');
    wait_state($node, 'dear', 'confirmed');
    is($node->safe_psql('postgres', q{SELECT op_digest('dear')}), $digest, 'these bytes');
    is(sends('refused'), 0, 'and not the others');
};

subtest 'asked again when a person wants it' => sub {
    $double->script({ match => { op => 'slow', kind => 'send' }, do => 'drop' },
        { match => { kind => 'lookup', contains => 'pi_slow' }, do => '500', times => 1 });
    submit_one('slow', 'bank.patient');
    wait_sql($node, q{SELECT count(*) = 2 FROM op_attempt WHERE op_id = 'slow'}, 'the first lookup');
    cmp_ok($node->safe_psql('postgres', q{SELECT extract(epoch FROM due_at - clock_timestamp()) FROM op_due WHERE op_id = 'slow'}), '>', 10, 'the next is far away');
    is((verb(q{op_recheck('slow')}))[0], 'unknown', 'rechecked');
    wait_state($node, 'slow', 'confirmed');
};

subtest 'handed back to the machine' => sub {
    $double->script({ match => { op => 'back', kind => 'send' }, do => 'drop' },
        { match => { kind => 'lookup', contains => 'pi_back' }, do => { delay_before => 'back' } });
    submit_one('back');
    wait_sql($node, q{SELECT state = 'unknown' FROM op_operation WHERE op_id = 'back'}, 'unknown');
    $node->safe_psql('postgres', q{UPDATE op_operation SET state = 'review', contradiction = true WHERE op_id = 'back'; DELETE FROM op_due WHERE op_id = 'back'});
    is((verb(q{op_resolve('back', 'unknown', NULL, 'a test of ours')}))[0], 'unknown', 'unknown again');
    $double->release('back');
    wait_state($node, 'back', 'confirmed');
};

check_invariants($node, $double);

subtest 'the purging backend is killed' => sub {
    my $count = q{SELECT count(*), (SELECT count(*) FROM op_request), (SELECT count(*) FROM op_attempt) FROM op_operation};
    my $before = $node->safe_psql('postgres', $count);
    my $session = $node->background_psql('postgres', on_error_stop => 0);
    my $pid = $session->query_safe('SELECT pg_backend_pid()');
    cmp_ok($session->query_safe(q{BEGIN; SELECT op_purge('0 s')}), '>', 10, 'it was in the middle');
    kill 'KILL', $pid;
    eval { $session->quit };
    wait_sql($node, 'SELECT true', 'the server to come back');
    is($node->safe_psql('postgres', $count), $before, 'nothing is gone');
    cmp_ok($node->safe_psql('postgres', q{SELECT op_purge('0 s')}), '>', 10, 'purged');
    is($node->safe_psql('postgres', q{SELECT count(*) FROM op_attempt AS a WHERE NOT EXISTS (SELECT FROM op_request AS r WHERE r.op_id = a.op_id)}), 0, 'no orphans');
    is(submit_one('wire'), 'confirmed', 'a purged id still answers');
    submit_one('last');
    wait_state($node, 'last', 'confirmed');
    is($double->effects_of('wire'), 1, 'and is not executed again');
};

done_testing();
