# Providers without idempotency keys: the three ways to use them, as doc/providers.md shows them.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();
my $node = new_node(name => 'nokeys');
my %no_key = (in => 'none', ttl => '0 s', stores => 'nothing', replayed => undef, name => undef, format => undef);

sub value { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }
sub sends { my ($op) = @_; return scalar sends_of($double, $op); }

sub order_spec
{
    my (%over) = @_;
    return {
        args    => { sku => { type => 'text' } },
        request => { path => '/things', json => { sku => '{sku}', reference => '{marker}' } },
        object  => { id => '$.id', marker => '$.reference' },
        lookup  => { path => '/things', query => { reference => '{marker}' }, items => '$.items[*]', more => '$.more == true' },
        %over
    };
}

# 1. The provider has a field of its own that must be unique. That field is the key: it is never forgotten, it
# keeps what succeeded, and a refusal leaves no effect. "Exists already" is evidence of an effect.
subtest 'a business key in the provider\'s own unique field' => sub {
    add_provider($node, 'shop', double => $double, actions => {}, spec => { key => \%no_key });
    add_action($node, 'shop.order', 'shop', order_spec(
        key     => { in => 'body', name => '/reference', format => 'raw', ttl => '3650 d', stores => 'success', guards => true },
        request => { path => '/things', json => { sku => '{sku}', note => '{marker}' } },
        rules => [ { if => { status => 409, body => '$.error.code == "reference_exists"' }, then => 'already_done' } ]));
    my $exists = { effect => false, answer => { status => 409, json => { error => { code => 'reference_exists' } } } };
    $double->script(
        # the answer is lost, and the lookup does not see the order yet
        { match => { op => 'order-1', kind => 'send', nth => 1 }, do => { like => 'drop', hide => 1 } },
        { match => { op => 'order-1', kind => 'send' }, do => $exists },
        # the request is lost
        { match => { op => 'order-2', kind => 'send', nth => 1 }, do => 'drop_before' });
    submit($node, "order-$_", 'shop.order', { sku => 'A7' }) for 1 .. 2;
    wait_state($node, "order-$_", 'confirmed') for 1 .. 2;
    is(value(q{SELECT string_agg(verdict, ' ' ORDER BY n) FROM op_attempt WHERE op_id = 'order-1' AND kind = 'send'}), 'unknown already_done', 'exists already: looked up, not failed');
    is(sends('order-2'), 2, 'what got lost is sent again at once');
    is($double->effects_of("order-$_"), 1, "order-$_ once") for 1 .. 2;
};

# 2. The provider can be asked: before the first send, and whenever an answer is lost.
subtest 'lookup first' => sub {
    add_provider($node, 'forum', double => $double, actions => {}, spec => { key => \%no_key });
    my $spec = order_spec();
    $spec->{lookup}{first} = true;
    add_action($node, 'forum.thread', 'forum', $spec);
    $double->script({ match => { op => 'post-lost', kind => 'send' }, do => 'drop' }, { match => { op => 'post-gone', kind => 'send' }, do => 'drop_before' });
    submit($node, $_, 'forum.thread', { sku => 'A7' }) for qw(post-plain post-lost post-gone);
    wait_state($node, $_, 'confirmed') for qw(post-plain post-lost);
    wait_state($node, 'post-gone', 'review', 'a lost request is not sent again: a person says so');
    is(value(q{SELECT string_agg(kind || ' ' || verdict, ', ' ORDER BY n) FROM op_attempt WHERE op_id = 'post-plain'}), 'lookup absent, send confirmed', 'asked, then sent');
    is(sends($_), 1, "$_: sent once") for qw(post-plain post-lost post-gone);
    is(value(q{SELECT reason FROM op_operation WHERE op_id = 'post-gone'}), 'absent', 'the lookup found nothing, which is in front of that person');
    value(q{SELECT op_resolve('post-gone', 'failed', NULL, 'the lookup is right'); SELECT op_reissue('post-gone', 'once more')});
    wait_state($node, 'post-gone', 'confirmed', 'and then it goes out as the next generation');
    is(sends('post-gone~2'), 1, 'under its own marker');
};

# 3. Nothing can be asked and nothing guards: one send, then evidence or a person.
subtest 'at most once' => sub {
    add_provider($node, 'sms', double => $double, actions => {}, spec => { key => \%no_key });
    my $spec = order_spec();
    delete $spec->{lookup};
    add_action($node, 'sms.send', 'sms', $spec);
    $double->script({ match => { op => 'sms-lost' }, do => 'drop' }, { match => { op => 'sms-busy', nth => 1 }, do => '429' });
    submit($node, $_, 'sms.send', { sku => 'hello' }) for qw(sms-plain sms-lost sms-busy);
    wait_state($node, $_, 'confirmed') for qw(sms-plain sms-busy);
    is(sends('sms-busy'), 2, 'a proven non-effect may be tried again');
    wait_state($node, 'sms-lost', 'review', 'a lost answer is a person\'s');
    is(sends('sms-lost'), 1, 'sent once');
    is(value(q{SELECT reason FROM op_operation WHERE op_id = 'sms-lost'}), 'no_lookup', 'and why');
};

check_invariants($node, $double);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no crash');
done_testing();
