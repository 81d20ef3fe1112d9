# The examples do what they say: refunds happen once, by the worker and by the harness itself, also when
# an answer is lost, and when the harness is killed in the middle.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run ();
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $examples = "$FindBin::RealBin/../../examples";
my $double   = start_provider();
my $node     = new_node(name => 'examples', secrets => { 'stripe.key' => 'sk_test_not_a_real_secret' });

my %harness = (
    py => [ $ENV{PYTHON} || 'python3', "$examples/harness.py" ],
    js => [ $ENV{NODE}   || 'node',    "$examples/harness.js" ],
);

local %ENV = (
    %ENV,
    PGHOST     => $node->host,
    PGPORT     => $node->port,
    PGDATABASE => 'postgres',
    PGUSER     => getpwuid($<) . '',
    STRIPE_KEY => 'sk_test_not_a_real_secret',
    STRIPE_URL => $double->url,
);

sub run_harness
{
    my ($language, $way, $line) = @_;
    my ($out, $err) = ('', '');
    IPC::Run::run([ @{ $harness{$language} }, $way, '1043', $line, "pi_$line", 500 ], '>', \$out, '2>', \$err, IPC::Run::timeout(60));
    diag($err) if $err;
    return $out;
}

sub sends
{
    my ($op) = @_;
    return $double->requests(kind => 'send', op => $op);
}

subtest 'psql.sql' => sub {
    my ($out, $err) = ('', '');
    ok(IPC::Run::run([ 'psql', '-XAt', '-v', 'url=' . $double->url, '-f', "$examples/psql.sql" ], '>', \$out, '2>', \$err), 'runs') or diag($err);
    like($out, qr/^confirmed\|done\|re_\d+\|use_result$/m, 'a refund');
    like($out, qr/^confirmed\|f\|re_\d+$/m, 'submitted again: the same');
    is($double->effects_of("refund-1043-$_"), 1, "$_: one effect") for qw(li_1 li_2);
};

for my $language (sort keys %harness)
{
    for my $way (qw(worker client))
    {
        subtest "$language, $way" => sub {
            my $line = "${language}_$way";
            my $op   = "refund-1043-$line";
            like(run_harness($language, $way, $line), qr/^\S+ confirmed re_\d+ use_result$/, 'refunded');
            like(run_harness($language, $way, $line), qr/^\S+ confirmed re_\d+ use_result$/, 'asked again: the same');
            is(scalar sends($op), 1, 'sent once');
            is((sends($op))[0]{key}, $op, 'under the ledger\'s key');
            my %headers = map { lc $_->[0] => $_->[1] } @{ (sends($op))[0]{headers} };
            is($headers{authorization}, 'Bearer sk_test_not_a_real_secret', 'with the secret of who sends');
        };
    }

    subtest "$language: the answer is lost" => sub {
        my $op = "refund-1043-${language}lost";
        $double->script({ match => { op => $op }, do => 'drop' });
        like(run_harness($language, 'client', "${language}lost"), qr/^\S+ confirmed re_\d+ use_result$/, 'found by the worker');
        is(scalar sends($op), 1, 'sent once');
        like(join(' ', map { "$_->{kind}:$_->{verdict}" } attempts($node, $op)), qr/^report:unknown lookup:found$/, 'reported as unknown, then looked up');
    };

    # It dies with the request under way, and never reports.
    subtest "$language: the harness is killed" => sub {
        my $op = "refund-1043-${language}killed";
        $double->script({ match => { op => $op }, do => 'hang' });
        my $run = IPC::Run::start([ @{ $harness{$language} }, 'client', '1043', "${language}killed", "pi_${language}killed", 500 ], '>', \my $out, '2>', \my $err);
        ok($double->wait(requests => 1, op => $op), 'the request is under way');
        $run->signal('KILL');
        eval { $run->finish };
        is(state_of($node, $op), 'submitted', 'nobody knows yet');
        is($node->safe_psql('postgres', "SELECT decision FROM op_claim('$op')"), 'wait', 'nobody else may send');
        # Its lease runs out.
        $node->safe_psql('postgres', "UPDATE op_due SET due_at = now() WHERE op_id = '$op'");
        wait_state($node, $op, 'confirmed');
        like(join(' ', map { "$_->{kind}:$_->{verdict}" } attempts($node, $op)), qr/^send:unknown lookup:found$/, 'lost, then found');
        like(run_harness($language, 'client', "${language}killed"), qr/^\S+ confirmed re_\d+ use_result$/, 'the next run knows');
        is(scalar sends($op), 1, 'sent once');
    };
}

is($node->safe_psql('postgres', q{SELECT count(*) FROM op_operation WHERE state <> 'confirmed'}), 0, 'all are confirmed');
$node->stop;
done_testing();
