# What our markers show: not where object.marker looks, absence proves nothing; on two objects, a person sees both.
use strict;
use warnings FATAL => 'all';

use FindBin;
use HTTP::Tiny;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();
my $node = new_node(name => 'markers');

# The double gives the marker back in metadata. Each key leaves room for a resend, were absence proved.
my %wrong = (object => { marker => '$.reference' });
add_provider($node, 'bank', double => $double, spec => { key => { stores => 'success' } }, actions => { refund => \%wrong });
add_provider($node, 'guarded', double => $double, actions => { refund => \%wrong });

sub refund { my ($op, $action) = @_; return submit($node, $op, $action || 'bank.refund', { payment_intent => "pi_$op", amount => 500 }); }
sub value  { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }
sub of     { my ($op, $what) = @_; return value("SELECT $what FROM op_review WHERE op_id = " . sql_text($op)); }

subtest 'our own 201 without a readable marker' => sub {
    refund('plain');
    refund('key', 'guarded.refund');
    for my $op (qw(plain key))
    {
        wait_state($node, $op, 'review');
        is(of($op, 'reason'), 'no_marker', "$op: and what came says why");
        is(value("SELECT sealed FROM op_operation WHERE op_id = '$op'"), 'evidence', "$op: an answer that may stem from an effect");
        is(sends_of($double, $op), 1, "$op: not sent again");
        my $words = of($op, 'suggestion');
        like($words, qr/object\.marker looks \(\$\.reference\)/, "$op: the suggestion names the field and what it says");
        unlike($words, qr/'failed'|op_reissue/, "$op: and nothing that doubles it");
    }
};

subtest 'an answer that cannot be read, and a list without any marker' => sub {
    $double->script({ match => { op => 'html' }, do => { answer => { status => 200, body => '<html>thank you</html>' } } });
    refund('html');
    wait_state($node, 'html', 'review');
    is(of('html', 'reason'), 'unmarked', 'no proof of absence');
    is(sends_of($double, 'html'), 1, 'not sent again');
    like(of('html', 'suggestion'), qr/object\.marker/, 'the suggestion names the field');
};

subtest 'the field is repaired' => sub {
    value(q{UPDATE op_action SET spec = jsonb_set(spec, '{object,marker}', '"$.metadata.op_id"')});
    for my $op (qw(plain key html))
    {
        $node->psql('postgres', "SELECT op_recheck('$op')"); # refused, if a slow lookup was faster
        wait_state($node, $op, 'confirmed');
        is($double->effects_of($op), 1, "$op: once");
    }
};

# Who changes what we wrote shows it changed in lists, too.
subtest 'another marker on our answer' => sub {
    $double->script({ match => { op => 'mangled' }, do => { effect => false, answer => { status => 201, json => { id => 're_x', metadata => { op_id => 'MANGLED' } } } } });
    refund('mangled');
    wait_state($node, 'mangled', 'review');
    is(of('mangled', 'reason'), 'unmarked', 'an empty list proves nothing');
    is(sends_of($double, 'mangled'), 1, 'not sent again');
    unlike(of('mangled', 'suggestion'), qr/'failed'|op_reissue/, 'and the suggestion says nothing that doubles it');
};

# Where nothing but silence came, a list of others' things is what it was.
subtest 'a lost request' => sub {
    value(q{UPDATE op_action SET spec = jsonb_set(spec, '{object,marker}', '"$.reference"') WHERE name = 'bank.refund'});
    submit($node, 'other', 'guarded.refund', { payment_intent => 'pi_lost', amount => 1 });
    wait_state($node, 'other', 'confirmed');
    $double->script({ match => { op => 'lost' }, do => 'drop_before' });
    refund('lost');
    wait_sql($node, q{SELECT count(*) > 0 FROM op_attempt WHERE op_id = 'lost' AND verdict = 'absent' AND reason = 'unmarked'}, 'absent');
    wait_state($node, 'lost', 'review');
    is(sends_of($double, 'lost'), 2, 'sent again, after proof of absence');
};

check_invariants($node, [$double]);

# Somebody else paid with our marker, beside us: the second object must not hide.
subtest 'two objects of ours' => sub {
    my $twice = start_provider();
    add_provider($node, 'twice', double => $twice);
    $twice->script({ match => { op => 'two', kind => 'send' }, do => 'drop' }, { match => { kind => 'lookup' }, do => '500', times => 'always' });
    refund('two', 'twice.refund');
    $twice->wait(requests => 1, kind => 'lookup');
    HTTP::Tiny->new->post_form($twice->url . '/v1/refunds', { payment_intent => 'pi_two', amount => 500, 'metadata[op_id]' => 'two' });
    $twice->clear_script;
    wait_state($node, 'two', 'review');
    wait_sql($node, q{SELECT contradiction FROM op_operation WHERE op_id = 'two'}, 'the contradiction is noted');
    my @ids = sort map { $_->{id} } @{ from_json(of('two', 'objects')) };
    is(scalar @ids, 2, 'op_review lists both');
    like(of('two', 'objects'), qr/"seen": "lookup \d+".*"state": "done"/, 'with state and where it was seen');
    like(of('two', 'suggestion'), qr/\Q$_\E: done, shown by lookup/, "the suggestion names $_") for @ids;
    is(value(q{SELECT string_agg(o ->> 'id', ' ' ORDER BY o ->> 'id') FROM jsonb_array_elements(op_evidence('two') -> 'objects') AS o}), "@ids", 'op_evidence lists both');
    is(value(q{SELECT count(*) FROM op_explain('two') WHERE topic = 'object'}), 2, 'and op_explain');
    like(value(q{SELECT string_agg(detail, ' ') FROM op_timeline('two')}), qr/\Q$ids[0]\E.*\Q$ids[1]\E|\Q$ids[1]\E.*\Q$ids[0]\E/s, 'and op_timeline');
    like(value("SELECT message FROM op_resolve('two', 'confirmed', '$ids[0]', 'the other was given back')"), qr/^a person says that it happened/, 'the receipt says who says so');
    is(value(q{SELECT message FROM op_status('two')}), value(q{SELECT message FROM op_wait('two', '0 s')}), 'for ever');
    is(value(q{SELECT jsonb_array_length(op_evidence('two') -> 'objects')}), 2, 'and both stay on record');
};

done_testing();
