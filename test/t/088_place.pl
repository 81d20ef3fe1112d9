# A provider's row is changed while nobody knows what became of an operation: another namespace, another address,
# another account, another way to ask. What it was sent with is frozen with it, and what another account shows
# proves nothing: there is one effect, whatever the lookups say meanwhile.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use Digest::SHA qw(hmac_sha256_hex);
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(name => 'place', secrets => {
    'a.key' => 'sk_account_a', 'b.key' => 'sk_account_b', 'hook.key' => 'whsec_not_a_real_secret' });
my $double = start_provider();
my $second = start_provider();
$double->config(accounts => true);
my %unkept = (key => { stores => 'nothing', guards => false });

sub value { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

# What psql says when it is done.
sub said { my ($sql) = @_; return ($node->psql('postgres', $sql))[2]; }

sub row { my ($provider, $set) = @_; return said("UPDATE op_provider SET $set WHERE name = '$provider'"); }

sub effects { my ($op) = @_; return $double->effects_of($op) + $second->effects_of($op); }

sub sends { my ($op) = @_; return scalar map { $_->requests(kind => 'send', op => $op) } $double, $second; }

# The answer is lost, or the request itself ("drop_before"), and the provider cannot be asked until it is told so.
sub submit_lost
{
    my ($provider, $op, $do) = @_;
    $double->script({ match => { op => $op }, do => $do || 'drop' }, { match => { kind => 'lookup', path => "pi_$op" }, do => '500', times => 'always' });
    submit($node, $op, "$provider.refund", { payment_intent => "pi_$op", amount => 500 });
    wait_state($node, $op, 'unknown', "$op: nobody knows");
    return;
}

# Lookups back off: whoever asks has them made soon.
sub asked_until
{
    my ($op, $condition, $what) = @_;
    return wait_sql($node, "SELECT EXISTS (SELECT FROM op_attempt a JOIN op_operation o USING (op_id) WHERE op_id = '$op'"
          . " AND kind = 'lookup' AND $condition) FROM op_recheck('$op')", "$op is $what");
}

# Once more from now on.
sub asked_again
{
    my ($op) = @_;
    my $last = value("SELECT max(n) FROM op_attempt WHERE op_id = '$op'");
    return asked_until($op, "a.n > $last", 'looked up');
}

# An absence counts 3 s after the send.
sub asked_when_quiet
{
    my ($op) = @_;
    return asked_until($op, "verdict = 'absent' AND a.started_at > o.last_sent_at + interval '3.1 s'", 'absent when quiet');
}

# Ask soon; a lookup that was due by itself may have ended it just now.
sub hurry
{
    my ($op) = @_;
    my $said = OpLedger::sqlstate_of($node, "SELECT op_recheck('$op')");
    die "op_recheck('$op'): $said" unless $said =~ /^(?:00000|OL007)$/;
    return;
}

sub undecided
{
    my ($op, $name) = @_;
    is(join(' ', state_of($node, $op), sends($op), effects($op)), 'unknown 1 ' . ($name =~ /lost request/ ? 0 : 1), $name);
    return;
}

sub one_effect
{
    my ($op, $sends, $name) = @_;
    hurry($op) if $name !~ /its own/;
    wait_state($node, $op, 'confirmed', $name);
    is(join(' ', sends($op), effects($op)), "$sends 1", "$op: $sends sent, one effect");
    return;
}

subtest 'another namespace: it is looked for under the marker that was sent' => sub {
    add_provider($node, 'named', double => $double, spec => { %unkept, namespace => 'old-' });
    $double->script({ match => { op => 'old-named' }, do => 'drop' }, { match => { kind => 'lookup', path => 'pi_named' }, do => '500', times => 'always' });
    submit($node, 'named', 'named.refund', { payment_intent => 'pi_named', amount => 500 });
    wait_state($node, 'named', 'unknown');
    unlike(row('named', q{spec = jsonb_set(spec, '{namespace}', '"new-"')}), qr/another account/, 'nothing is in doubt');
    asked_again('named');
    $double->clear_script;
    hurry('named');
    wait_state($node, 'named', 'confirmed');
    is(join(' ', scalar($double->requests(kind => 'send', op => 'old-named')), $double->effects_of('old-named'), $double->effects_of('new-named')), '1 1 0', 'one effect');
};

subtest 'another address: it is asked where it was sent, and sent again there' => sub {
    add_provider($node, 'moved', double => $double);
    submit_lost('moved', 'answered');
    submit_lost('moved', 'vanished', 'drop_before');
    unlike(row('moved', 'base_url = ' . sql_text($second->url)), qr/another account/, 'nothing is in doubt');
    asked_again($_) for qw(answered vanished);
    $double->clear_script;
    one_effect('answered', 1, 'found where it is');
    one_effect('vanished', 2, 'absent where it was sent, and sent again');
    is(scalar($second->requests), 0, 'the new address was told nothing of them');
};

subtest "another account: absence and refusals prove nothing; back, and they go on" => sub {
    add_provider($node, 'bank', double => $double, secret => 'file:a.key');
    submit_lost('bank', 'done');
    submit_lost('bank', 'gone', 'drop_before');
    my $notice = row('bank', q{secret = 'file:b.key'});
    like($notice, qr/operations of provider "bank" that were sent to another account, or asked after in another way: 2\b/, 'said at once');
    like($notice, qr/op_provider_rotate/, 'with what would have been right');
    $double->clear_script;
    $double->script({ match => { kind => 'send', header => { Authorization => 'account_b' } }, do => { answer => { status => 404 } }, times => 'always' });
    asked_when_quiet($_) for qw(done gone);
    undecided('done', 'the effect is there, the other account has nothing');
    undecided('gone', 'a lost request: the other account proves nothing');
    like(value("SELECT says FROM op_explain('done') WHERE topic = 'place'"), qr/another account/, 'op_explain says so');
    like(value("SELECT says FROM op_explain('done') WHERE topic = 'if it shows none of ours'"), qr/^unknown; the provider is asked/, 'and what an absence would mean');
    like(value("SELECT detail FROM op_health() WHERE check_name = 'place'"), qr/provider "bank".*: 2, the oldest/, 'op_health counts them');
    submit($node, 'refused', 'bank.refund', { payment_intent => 'pi_refused', amount => 500 });
    wait_state($node, 'refused', 'failed', 'what is new goes to the new account, and its word counts');
    $double->clear_script;
    unlike(row('bank', q{secret = 'file:a.key'}), qr/another account/, 'back');
    one_effect('done', 1, 'found');
    one_effect('gone', 2, 'absent, and sent again');
    is(value("SELECT count(*) FROM op_health() WHERE check_name = 'place'"), '0', 'nothing is left');
};

subtest 'another key of the same account: everything goes on' => sub {
    $double->config(accounts => false);
    add_provider($node, 'rotated', double => $double, secret => 'file:a.key');
    submit_lost('rotated', 'kept');
    submit_lost('rotated', 'again', 'drop_before');
    unlike(said("SELECT op_provider_rotate('rotated', 'file:b.key')"), qr/another account/, 'nothing is in doubt');
    $double->clear_script;
    one_effect('kept', 1, 'found with the new key');
    one_effect('again', 2, 'sent again with the new key');
    like(to_json([ $double->requests(kind => 'send', op => 'again') ]->[-1]{headers}), qr/sk_account_b/, 'it left with the new key');
    $double->config(accounts => true);
};

subtest 'another way to ask' => sub {
    add_provider($node, 'asked', double => $double, actions => { refund => { lookup => { give_up => '1 min' } } });
    submit_lost('asked', 'other');
    like(said(q{UPDATE op_action SET spec = jsonb_set(spec, '{lookup,query}', '{"charge": "{payment_intent}", "limit": 100}') WHERE name = 'asked.refund'}),
        qr/asked after in another way: 1\b/, 'said at once');
    $double->clear_script;
    asked_when_quiet('other');
    undecided('other', 'an absence by another recipe proves nothing');
    said(q{UPDATE op_action SET spec = jsonb_set(spec, '{lookup,query}', '{"payment_intent": "{payment_intent}", "limit": 100}') WHERE name = 'asked.refund'});
    one_effect('other', 1, 'found as before');
};

subtest 'where nobody can be asked it waits for its account' => sub {
    add_provider($node, 'blind', double => $double, secret => 'file:a.key', actions => { refund => { lookup => undef } });
    # The first answer is late, so that the row is changed before anything follows from it.
    $double->script({ match => { op => 'blind' }, do => { like => 'drop_before', delay_arrival => 'gate' } });
    submit($node, 'blind', 'blind.refund', { payment_intent => 'pi_blind', amount => 500 });
    $double->wait(waiting => 1, op => 'blind');
    like(row('blind', q{secret = 'file:b.key'}), qr/: 1\b/, 'it is counted while its request is out');
    $double->release('gate');
    wait_state($node, 'blind', 'unknown');
    my $written = "SELECT count(*) >= 1 FROM op_due d JOIN op_operation o USING (op_id) WHERE op_id = 'blind' AND step = 'send' AND d.due_at > o.last_sent_at + interval '2 s'";
    wait_sql($node, $written, 'the claim to be put off');
    is(sends('blind'), 1, 'it is not sent to another account');
    row('blind', q{secret = 'file:a.key'});
    one_effect('blind', 2, 'sent again to its own');
};

subtest 'nobody changes it back: a person decides' => sub {
    add_provider($node, 'left', double => $double, secret => 'file:a.key', actions => { refund => { lookup => { give_up => '4 s' } } });
    submit_lost('left', 'left');
    row('left', q{secret = 'file:b.key'});
    $double->clear_script;
    wait_sql($node, q{SELECT clock_timestamp() > last_sent_at + interval '4 s' FROM op_operation WHERE op_id = 'left'}, 'give_up');
    hurry('left');
    wait_state($node, 'left', 'review');
    is(value("SELECT reason FROM op_operation WHERE op_id = 'left'"), 'elsewhere', 'with a word for why');
    like(value("SELECT suggestion FROM op_review WHERE op_id = 'left'"), qr/another account/, 'and what to do');
    is(sends('left'), 1, 'not sent again');
    my $id = (grep { $_->{metadata}{op_id} eq 'left' } @{ $double->effects->{objects} })[0]{id};
    is(value("SELECT state FROM op_resolve('left', 'confirmed', '$id', 'seen in the old account')"), 'confirmed', 'a person says what happened');
};

subtest 'what was never sent goes to where the provider is now' => sub {
    add_provider($node, 'fresh', double => $double, secret => 'file:a.key');
    value("SELECT op_provider_pause('fresh')");
    submit($node, 'fresh', 'fresh.refund', { payment_intent => 'pi_fresh', amount => 500 });
    unlike(row('fresh', q{secret = 'file:b.key'}), qr/another account/, 'nothing is in doubt');
    value("SELECT op_provider_resume('fresh')");
    one_effect('fresh', 1, 'sent');
    like(to_json([ $double->requests(kind => 'send', op => 'fresh') ]->[-1]{headers}), qr/sk_account_b/, 'to the new account');
};

subtest 'a webhook names the namespace that was sent' => sub {
    add_provider($node, 'hooked', double => $double, spec => { %unkept, namespace => 'shop/', webhook =>
          { scheme => 'stripe', secret => 'file:hook.key', object => '$.data.object', id => '$.id', type => '$.type' } }, actions => { refund => { lookup => undef } });
    $double->script({ match => { op => 'shop/hooked' }, do => 'drop' });
    submit($node, 'hooked', 'hooked.refund', { payment_intent => 'pi_hooked', amount => 500 });
    wait_state($node, 'hooked', 'review');
    row('hooked', q{spec = jsonb_set(spec, '{namespace}', '"store/"')});
    my $body = to_json({ id => 'evt_1', type => 'refund.updated', data => { object => { object => 'refund', id => 're_hooked', status => 'succeeded', metadata => { op_id => 'shop/hooked' } } } });
    my $at = time;
    my $headers = to_json({ 'Stripe-Signature' => "t=$at,v1=" . hmac_sha256_hex("$at.$body", 'whsec_not_a_real_secret') });
    is(value(sprintf q{SELECT state FROM op_webhook('hooked', %s, convert_to(%s, 'UTF8'))}, sql_text($headers), sql_text($body)), 'confirmed', 'and is known for ours');
};

check_invariants($node, [ $double, $second ]);
done_testing();
