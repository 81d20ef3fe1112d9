# The provider tells by itself: before the answer, twice, days later, out of order, about things that are not
# ours, and about things that contradict what is known.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use Digest::SHA qw(hmac_sha256_hex hmac_sha256_base64);
use MIME::Base64 qw(decode_base64);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $secret = 'whsec_not_a_real_secret';
my $double = start_provider();
my $node = new_node(name => 'webhook', secrets => { 'hook.key' => $secret, 'standard.key' => 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' });
my $hook = { scheme => 'stripe', secret => 'file:hook.key', object => '$.data.object', id => '$.id', type => '$.type' };
add_provider($node, 'bank', double => $double, spec => { webhook => $hook }, actions => {
    refund   => { object => { is => '$.object == "refund"' } },
    unmarked => { object => { marker => undef }, lookup => undef },
});
add_provider($node, 'other', double => $double, spec => { webhook => $hook });
watch_states($node);

sub value { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

sub refund
{
    my ($op, $action) = @_;
    return submit($node, $op, $action || 'bank.refund', { payment_intent => "pi_$op", amount => 500 });
}

sub bytes { my ($text) = @_; return "'\\x" . unpack('H*', $text) . "'::bytea"; }

sub signed
{
    my ($body, $at, $key) = @_;
    $at //= time;
    return to_json({ 'Stripe-Signature' => "t=$at,v1=" . hmac_sha256_hex("$at.$body", $key || $secret) });
}

sub call
{
    my ($provider, $headers, $body) = @_;
    return sprintf 'op_webhook(%s, %s, %s)', sql_text($provider), sql_text($headers), bytes($body);
}

my $events = 0;

# An event about an object; answers "state external_id", or nothing when it is nobody's.
sub event
{
    my ($object, %how) = @_;
    my $id = $how{id} || 'evt_' . ++$events;
    return to_json({ id => $id, type => $how{type} || 'refund.updated', data => { object => $object } });
}

sub deliver
{
    my ($object, %how) = @_;
    my $body = event($object, %how);
    return value("SELECT concat_ws(' ', state, external_id) FROM " . call($how{provider} || 'bank', signed($body), $body));
}

# What psql says when it is refused.
sub refused
{
    my ($provider, $headers, $body) = @_;
    my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT " . call($provider, $headers, $body));
    return $err;
}

sub made
{
    my ($op) = @_;
    return (grep { ($_->{metadata}{op_id} // '') eq $op } @{ $double->effects->{objects} })[0];
}

sub told
{
    my ($op) = @_;
    return join ' ', map { "$_->{verdict}/$_->{reason}" } sort { $b->{n} <=> $a->{n} } attempts($node, $op, kind => 'webhook');
}

sub refund_object { my ($id, $op, $status) = @_; return { object => 'refund', id => $id, status => $status || 'succeeded', metadata => { op_id => $op } }; }

subtest 'before the answer, twice, days later' => sub {
    $double->script({ match => { op => 'early' }, do => { delay_answer => 'early' } });
    refund('early');
    $double->wait(effects => 1);
    my $object = made('early');
    is(deliver($object, id => 'evt_early'), "confirmed $object->{id}", 'confirmed before the answer is there');
    $double->release('early');
    wait_sql($node, q{SELECT count(*) = 1 FROM op_attempt WHERE op_id = 'early' AND kind = 'send'}, 'the answer');
    is(deliver($object, id => 'evt_early'), "confirmed $object->{id}", 'the same event again: the same answer');
    is(told('early'), 'found/refund.updated', 'is one piece of evidence');
    is(deliver($object, id => 'evt_later'), "confirmed $object->{id}", 'another event about it');
    is(deliver({ %$object, status => 'pending' }, id => 'evt_pending'), "confirmed $object->{id}", 'an older one that comes last');
    is(told('early'), 'found/refund.updated found/refund.updated found_pending/refund.updated', 'are sightings of their own');
    is(states_seen($node, 'early'), 'pending submitted confirmed', 'one transition');
    is(value(q{SELECT response_body FROM op_attempt WHERE op_id = 'early' AND request_id = 'evt_early'}),
        '\x' . unpack('H*', event($object, id => 'evt_early')), 'the bytes are kept');
    like(value(q{SELECT convert_from(response_headers, 'UTF8') FROM op_attempt WHERE op_id = 'early' AND request_id = 'evt_early'}), qr/^Stripe-Signature: t=\d+,v1=/, 'with what proves them');
};

subtest 'ten deliveries at once' => sub {
    $double->script({ match => { op => 'crowd' }, do => { object => { status => 'pending' } } });
    refund('crowd');
    wait_state($node, 'crowd', 'accepted');
    my $object = { %{ made('crowd') }, status => 'succeeded' };
    my $same = event($object, id => 'evt_crowd');
    my @sessions = map { my $body = $_ < 5 ? $same : event($object); IPC::Run::start(
        [ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SELECT (' . call('bank', signed($body), $body) . ').state' ], '>', \my $out, '2>', \my $err) } 0 .. 9;
    $_->finish for @sessions;
    is(state_of($node, 'crowd'), 'confirmed', 'confirmed');
    is(value(q{SELECT count(*) || ' ' || count(DISTINCT n) || ' ' || max(n) FROM op_attempt WHERE op_id = 'crowd' AND kind = 'webhook'}), '6 6 -1', 'six events');
    is(states_seen($node, 'crowd'), 'pending submitted accepted confirmed', 'one transition');
    $double->object(op => 'crowd', set => { status => 'succeeded' });
};

subtest 'it ends what lookups cannot' => sub {
    $double->script({ match => { op => 'told' }, do => 'drop' }, { match => { kind => 'lookup', contains => 'pi_told' }, do => '500', times => 'always' });
    refund('told');
    wait_state($node, 'told', 'unknown');
    is(deliver(made('told')), 'confirmed ' . made('told')->{id}, 'confirmed');
    $double->clear_script;
    # A failed object: nothing else of this operation can succeed.
    $double->script({ match => { op => 'bounced' }, do => { object => { status => 'pending' } } });
    refund('bounced');
    wait_state($node, 'bounced', 'accepted');
    $double->object(op => 'bounced', set => { status => 'failed' });
    like(deliver({ %{ made('bounced') }, status => 'failed' }, type => 'refund.failed'), qr/^failed /, 'failed');
};

# Whoever stores evidence holds the operation; what its own snapshot shows of it may be older.
subtest 'in an old snapshot' => sub {
    my $object = made('early');
    my ($same, $other) = map { event($object, id => "evt_old_$_") } 1 .. 2;
    my $session = $node->background_psql('postgres');
    $session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM op_attempt');
    deliver($object, id => 'evt_old_1');
    my ($again, $next) = map { 'SELECT (' . call('bank', signed($_), $_) . ').state' } $same, $other;
    is($session->query_safe($again), 'confirmed', 'the event that came meanwhile is known');
    is($session->query_safe($next), 'confirmed', 'the next one has a number of its own');
    $session->query_safe('COMMIT');
    $session->quit;
    is(value(q{SELECT string_agg(request_id, ' ' ORDER BY n DESC) FROM op_attempt WHERE request_id LIKE 'evt_old%'}), 'evt_old_1 evt_old_2', 'each is there once');
};

# What the client saw is evidence, though the provider was faster: nobody has written down its exchange yet.
subtest 'before the report of a client' => sub {
    add_action($node, 'bank.client', 'bank', refund_spec(executor => 'client', lookup => undef, object => { is => '$.object == "refund"' }));
    refund('claimed', 'bank.client');
    is(value(q{SELECT decision || ' ' || attempt FROM op_claim('claimed')}), 'send 1', 'claimed');
    is(deliver(refund_object('re_claimed', 'claimed')), 'confirmed re_claimed', 'the provider tells first');
    my $body = bytes(to_json(refund_object('re_claimed', 'claimed')));
    is(value("SELECT state || ' ' || external_id FROM op_report('claimed', 1, 200, body => $body)"), 'confirmed re_claimed', 'the report is taken');
    value("SELECT op_report('claimed', 1, 200, body => $body)");
    is(value(q{SELECT string_agg(n || ' ' || kind || ' ' || verdict, ', ' ORDER BY n DESC) FROM op_attempt WHERE op_id = 'claimed'}),
        '1 report confirmed, -1 webhook found, -2 report confirmed', 'under its own number; again, under the next');
};

# Section "One door": evidence only moves forward, and contradictions go to a person.
subtest 'contradictions' => sub {
    my $no = { effect => JSON::PP::false, answer => { status => 402, json => { error => { code => 'card_declined' } } } };
    $double->script({ match => { op => $_ }, do => $no }) for qw(refused refused-2);
    refund($_) for qw(refused refused-2 reversed twice noted);
    wait_state($node, $_, 'failed') for qw(refused refused-2);
    wait_state($node, $_, 'confirmed') for qw(reversed twice noted);

    is(deliver(refund_object('re_late', 'refused')), 'review', 'a living object after failed');
    is(deliver(refund_object('re_late', 'refused-2', 'failed')), 'failed', 'a failed one after failed is noted');
    like(deliver({ %{ made('reversed') }, status => 'failed' }, type => 'refund.failed'), qr/^review /, 'failed at the bank after confirmed');
    like(deliver(refund_object('re_second', 'twice')), qr/^review /, 'a second object');
    is(deliver(refund_object('re_second', 'noted', 'failed')), 'confirmed ' . made('noted')->{id}, 'a second object that failed is noted');
    is(value(q{SELECT string_agg(op_id || ' ' || contradiction || ' ' || coalesce(reason, '-'), ', ' ORDER BY op_id) FROM op_operation WHERE state = 'review'}),
        'refused true contradiction, reversed true contradiction, twice true contradiction', 'with the reason');
    is(value(q{SELECT external_id FROM op_operation WHERE op_id = 'twice'}), made('twice')->{id}, 'what was known is not overwritten');
    is(value(q{SELECT failed_ids FROM op_operation WHERE op_id = 'noted'}), '{re_second}', 'what failed is on record');
    is(value(q{SELECT count(*) FROM op_due WHERE op_id IN ('refused', 'reversed', 'twice')}), '0', 'nothing is done about them by machine');
    is(deliver(made('reversed')), 'review ' . made('reversed')->{id}, 'and no further event moves them');

    my $reversed = made('reversed')->{id};
    is(value(q{SELECT failed_ids FROM op_operation WHERE op_id = 'reversed'}), "{$reversed}", 'a reversal is on record, too');
    value(q{SELECT op_resolve('reversed', 'unknown', NULL, 'what do they say now?')});
    is(deliver(made('reversed')), "review $reversed", 'so that an older word does not confirm it again');
    is(value(q{SELECT contradiction FROM op_operation WHERE op_id = 'reversed'}), 't', 'but contradicts');
    value(q{SELECT op_resolve('reversed', 'confirmed', NULL, 'the bank has paid it once more')});
    is(value(q{SELECT failed_ids IS NULL FROM op_operation WHERE op_id = 'reversed'}), 't', 'a person knows better');
    is(deliver(made('reversed')), "confirmed $reversed", 'and that is not contradicted');
};

subtest 'generations' => sub {
    my $no = { effect => JSON::PP::false, answer => { status => 402 } };
    $double->script({ match => { op => $_ }, do => $no }) for qw(again again-2);
    refund($_) for qw(again again-2);
    wait_state($node, $_, 'failed') for qw(again again-2);
    wait_sql($node, q{SELECT max(last_sent_at) < now() - interval '3.1 s' FROM op_operation WHERE op_id LIKE 'again%'}, 'quiet');
    value(qq{SELECT op_reissue('$_', 'the card was changed')}) for qw(again again-2);
    wait_state($node, $_, 'confirmed') for qw(again again-2);
    my $id = made('again~2')->{id};
    is(deliver(made('again~2')), "confirmed $id", 'an event about the present generation');
    is(deliver(refund_object('re_old', 'again', 'failed')), "confirmed $id", 'the failure of an old one is noted');
    like(deliver(refund_object('re_old', 'again-2')), qr/^review /, 'its life is a contradiction');
};

subtest 'whose object it is' => sub {
    refund('mine', 'bank.unmarked');
    wait_state($node, 'mine', 'confirmed');
    my $mine = value(q{SELECT external_id FROM op_operation WHERE op_id = 'mine'});
    is(deliver({ id => $mine, status => 'succeeded' }), "confirmed $mine", 'by its external id, where there is no marker');
    is(deliver({ id => "${mine}x", status => 'succeeded' }), '', 'another id is nobody');
    my $early = made('early')->{id};
    is(deliver({ object => 'refund', id => $early, status => 'succeeded' }), "confirmed $early", 'by the id on record, where the event leaves the marker out');
    is(deliver({ object => 'refund', id => $early, status => 'succeeded', metadata => { op_id => 'somebody' } }), "confirmed $early", 'recorded');
    is((told('early') =~ /(\S+)$/)[0], 'inconclusive/refund.updated', 'but another marker is not believed');
    is(deliver({ object => 'charge', id => 'ch_1', status => 'succeeded', metadata => { op_id => 'early' } }), '', 'an object of another kind');
    is(deliver(refund_object('re_x', 'nobody-knows')), '', 'an operation that does not exist');
    is(deliver(made('early'), provider => 'other'), '', 'an operation of another provider');
    is(deliver({ nothing => 1 }), '', 'something else');
    for my $body ('', 'no json', "\xff\0\x01", '[' x 10_000, '{"data": {"object": {"object": "refund", "id": "re_1", "metadata": {"op_id": "\u0000"}}}}')
    {
        is(value('SELECT ' . call('bank', signed($body), $body) . ' IS NULL'), 't', 'bytes that say nothing');
    }
};

subtest 'not genuine' => sub {
    my $body = event(refund_object('re_forged', 'early', 'failed'));
    my $now = time;
    my %lies = (
        'no header'      => '{}',
        'another secret' => signed($body, $now, 'guess'),
        'another body'   => signed("$body ", $now),
        'no version'     => to_json({ 'Stripe-Signature' => "t=$now" }),
    );
    my %errors = map { refused('bank', $lies{$_}, $body) => 1 } sort keys %lies;
    is(scalar keys %errors, 1, 'whatever is wrong, the error is the same') or diag(join "\n", keys %errors);
    like((keys %errors)[0], qr/OL011: webhook of provider "bank" has no valid signature/, 'and says no more than that');
    like(refused('bank', signed($body, $now - 301), $body), qr/OL011: .* was signed at another time/, 'a recording that is played again later');
    is(state_of($node, 'early'), 'confirmed', 'nothing moved');
    unlike(slurp_file($node->logfile), qr/\Q$secret\E/, 'the secret is in no log');
};

subtest 'another scheme' => sub {
    add_provider($node, 'std', double => $double, spec => { webhook => { scheme => 'standard', secret => 'file:standard.key', object => '$.data' } });
    refund('std', 'std.refund');
    wait_state($node, 'std', 'confirmed');
    my $body = to_json({ data => made('std') });
    my $at = time;
    my $sign = sub { my $s = hmac_sha256_base64("$_[0].$at.$body", decode_base64('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')); $s .= '=' while length($s) % 4; $s };
    for my $id (qw(msg_1 msg_1 msg_2))
    {
        my $headers = to_json({ 'webhook-id' => $id, 'webhook-timestamp' => "$at", 'webhook-signature' => 'v1,' . $sign->($id) });
        is(value('SELECT (' . call('std', $headers, $body) . ').state'), 'confirmed', "$id is taken in");
    }
    is(value(q{SELECT string_agg(request_id, ' ' ORDER BY n DESC) FROM op_attempt WHERE op_id = 'std' AND kind = 'webhook'}), 'msg_1 msg_2', 'each once');
};

# Who serves the address needs no right but this: the signature is the right.
subtest 'rights' => sub {
    value(q{CREATE ROLE endpoint; SELECT op_grant('endpoint', 'submit')});
    my $body = event(made('early'));
    is(value('SET ROLE endpoint; SELECT (' . call('bank', signed($body), $body) . ').state'), 'confirmed', 'level submit is enough');
};

check_invariants($node, $double);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no crash');
done_testing();
