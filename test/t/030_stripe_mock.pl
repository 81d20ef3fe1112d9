# Against a Stripe double that somebody else wrote, behind a proxy that loses answers.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use HTTP::Tiny;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock  = start_stripe_mock();
my $proxy = start_proxy('127.0.0.1:' . $mock->port);
my $node  = new_node(name => 'stripe');

# Its refunds belong to a charge; payment intents it does not know.
add_provider($node, 'mock', double => $proxy, actions => { refund => { by => 'charge' } });
add_provider($node, 'blind', double => $proxy, actions => { refund => { by => 'charge', lookup => undef } });

my $http = HTTP::Tiny->new(http_proxy => undef, proxy => undef, default_headers => { Authorization => 'Bearer ' . OpLedger::SECRET });

sub stripe
{
    my ($method, $path, $form) = @_;
    my $answer = $form ? $http->post_form($mock->url . $path, $form) : $http->request($method, $mock->url . $path);
    die "$method $path: $answer->{content}" unless $answer->{success};
    return from_json($answer->{content});
}

sub new_charge
{
    return stripe(POST => '/v1/charges', { amount => 100_000, currency => 'usd', source => 'tok_visa' })->{id};
}

sub refunds_of
{
    my ($charge) = @_;
    return @{ stripe(GET => "/v1/refunds?charge=$charge&limit=100")->{data} };
}

# One refund of the charge, and it is the operation's.
sub refunded_once
{
    my ($op, $charge) = @_;
    my @refunds = refunds_of($charge);
    is(scalar @refunds, 1, 'one refund');
    is($refunds[0]{metadata}{op_id}, $op, 'which carries our mark');
    is($node->safe_psql('postgres', "SELECT external_id FROM op_operation WHERE op_id = '$op'"), $refunds[0]{id}, 'and whose id we know');
    return;
}

sub history
{
    my ($op) = @_;
    return join ' ', map { "$_->{kind}:$_->{verdict}" } attempts($node, $op);
}

subtest 'an answer' => sub {
    my $charge = new_charge();
    submit($node, 'normal', 'mock.refund', { charge => $charge, amount => 38_000 });
    wait_state($node, 'normal', 'confirmed');
    refunded_once('normal', $charge);
    is(history('normal'), 'send:confirmed', 'by the answer');
};

subtest 'a lost answer is looked up' => sub {
    my $charge = new_charge();
    $proxy->script({ match => { method => 'POST', path => '^/v1/refunds', op => 'lost' }, do => 'drop' });
    submit($node, 'lost', 'mock.refund', { charge => $charge, amount => 38_000 });
    wait_state($node, 'lost', 'confirmed');
    refunded_once('lost', $charge);
    is(history('lost'), 'send:unknown lookup:found', 'sent once, then found');
};

subtest 'the lookup fails, too, for a while' => sub {
    my $charge = new_charge();
    $proxy->script({ match => { op => 'dark' }, do => 'reset' }, { match => { kind => 'lookup', contains => $charge }, do => 'drop', times => 2 });
    submit($node, 'dark', 'mock.refund', { charge => $charge, amount => 38_000 });
    wait_state($node, 'dark', 'confirmed');
    refunded_once('dark', $charge);
    is(history('dark'), 'send:unknown lookup:inconclusive lookup:inconclusive lookup:found', 'a failed lookup says nothing');
};

subtest 'the request never arrived' => sub {
    my $charge = new_charge();
    $proxy->script({ match => { op => 'never' }, do => 'drop_before' });
    submit($node, 'never', 'mock.refund', { charge => $charge, amount => 38_000 });
    wait_state($node, 'never', 'confirmed');
    refunded_once('never', $charge);
    is(scalar $proxy->requests(op => 'never', kind => 'send'), 2, 'sent again under its key');
};

# Its replayed answer says it is text/html: what counts is what stands in it.
subtest 'without a lookup the key finds it' => sub {
    my $charge = new_charge();
    $proxy->script({ match => { op => 'blind' }, do => 'drop' });
    submit($node, 'blind', 'blind.refund', { charge => $charge, amount => 38_000 });
    wait_state($node, 'blind', 'confirmed');
    refunded_once('blind', $charge);
    is(history('blind'), 'send:unknown send:confirmed', 'the stored answer came');
};

subtest 'a refusal' => sub {
    my $charge = new_charge();
    submit($node, 'too much', 'mock.refund', { charge => $charge, amount => 200_000 });
    wait_state($node, 'too much', 'failed');
    is(scalar refunds_of($charge), 0, 'nothing was refunded');
};

is(to_json($proxy->unused), '[]', 'every rule was used');
check_invariants($node, $proxy);
done_testing();
