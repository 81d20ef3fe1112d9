# Whatever dies, at whatever moment: what might have been sent is found again and looked up, what was not
# sent is sent, and nothing is sent twice.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();
my $node = new_node(name => 'crash');

# Keys are ignored by this provider: a second send would be a second effect.
$double->config(stores => 'nothing');
add_provider($node, 'bank', double => $double, spec => { key => { stores => 'nothing' } });
my $lost_unsent = 0;

sub refund
{
    my ($op, $provider) = @_;
    return submit($node, $op, ($provider || 'bank') . '.refund', { payment_intent => "pi_$op", amount => 500 });
}

sub sends
{
    my ($op) = @_;
    return $double->requests(kind => 'send', op => $op);
}

sub lost_attempts
{
    my ($op) = @_;
    return grep { ($_->{reason} // '') =~ /^lost/ || ($_->{verdict} // '') eq 'lost' } attempts($node, $op, kind => 'send');
}

# Four ways to lose the worker. What was submitted meanwhile is sent.
subtest 'the worker comes back' => sub {
    my %ways = (
        '1 terminate'    => sub { $node->safe_psql('postgres', "SELECT pg_terminate_backend($_[0])") },
        '2 kill worker'  => sub { kill KILL => $_[0] },
        '3 kill backend' => sub { kill_a_backend() },
        '4 restart'      => sub { $node->restart },
    );
    for my $way (sort keys %ways)
    {
        my $worker = worker_pid($node);
        $ways{$way}->($worker);
        submit_when_up("after $way");
        wait_state($node, "after $way", 'confirmed');
        isnt(worker_pid($node, not => $worker), $worker, "$way: another worker");
    }
};

# Submitting twice is harmless, so it is simply tried until the server is there.
sub submit_when_up
{
    my ($op) = @_;
    wait_sql($node, qq{SELECT op_id = '$op' FROM op_submit('$op', 'bank.refund', '{"payment_intent": "pi_1", "amount": 1}')}, "a submit of $op");
    return;
}

# kill -9 of any process makes the server start anew.
sub kill_a_backend
{
    my $session = $node->background_psql('postgres');
    my $pid     = $session->query_safe('SELECT pg_backend_pid()');
    kill KILL => $pid;
    eval { $session->quit };
    return;
}

# The mark is durable even where the administrator said that commits need not be.
subtest 'the server stops at the moment the provider has the request' => sub {
    $node->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_commit = off});
    $node->safe_psql('postgres', q{ALTER SYSTEM SET wal_writer_delay = '10s'});
    $node->restart;
    $double->script({ match => { op => 'durable' }, do => { run_after => stop_command($node) } });
    # The submit must not be lost itself, so it alone is synchronous.
    $node->safe_psql('postgres', q{
        SET synchronous_commit = on;
        SELECT op_submit('durable', 'bank.refund', '{"payment_intent": "pi_durable", "amount": 1}')});
    ok($double->wait(runs => 1, op => 'durable'), 'the provider stopped the server');
    crashed($node);
    $node->start;

    wait_state($node, 'durable', 'confirmed');
    is(scalar sends('durable'), 1, 'sent once');
    is(scalar lost_attempts('durable'), 1, 'the attempt of the dead worker is on record as lost');
    is((attempts($node, 'durable'))[-1]{kind}, 'lookup', 'a lookup found it');

    $node->safe_psql('postgres', q{ALTER SYSTEM RESET ALL});
    $node->restart;
};

# The same, but the request has no effect: it is sent again once absence is proved, and not before.
subtest 'the server stops before the effect' => sub {
    $double->script({ match => { op => 'early' }, do => { like => 'drop_before', keyed => true, run => stop_command($node) } });
    refund('early');
    ok($double->wait(runs => 1, op => 'early'), 'the provider stopped the server');
    crashed($node);
    $node->start;
    wait_state($node, 'early', 'confirmed');
    is(scalar sends('early'), 2, 'sent again');
    is($double->effects_of('early'), 1, 'one effect');
    like(join(' ', map { "$_->{kind}:$_->{verdict}" } attempts($node, 'early')), qr/lookup:absent.* send:confirmed/, 'after proof of absence');
};

# Between claim and send: the connection never comes up, so nothing can have left, but nobody knows that.
subtest 'the server stops between claim and send' => sub {
    add_provider($node, 'full', url => $double->url_of('full'), spec => { timeout => { connect => '30 s', total => '30 s', flight => '2 s' } });
    refund('unsent', 'full');
    wait_sql($node, q{SELECT state = 'submitted' FROM op_operation WHERE op_id = 'unsent'}, 'the claim');
    $node->stop('immediate');
    is(scalar sends('unsent'), 0, 'nothing had left');
    $double->open_full;
    $node->start;

    wait_state($node, 'unsent', 'confirmed');
    is(scalar sends('unsent'), 1, 'sent once');
    is((attempts($node, 'unsent'))[1]{kind}, 'lookup', 'but looked up before');
    $lost_unsent += lost_attempts('unsent');
};

# Between answer and settle: the worker has the answer, but a session holds the row.
subtest 'the server stops between answer and settle' => sub {
    my $holder = hold_answer('answered');
    is(state_of($node, 'answered'), 'submitted', 'the answer waits in memory');
    $node->stop('immediate');
    eval { $holder->quit };
    $node->start;
    wait_state($node, 'answered', 'confirmed');
    is(scalar sends('answered'), 1, 'sent once');
    is((attempts($node, 'answered'))[-1]{kind}, 'lookup', 'found by lookup');
};

# The same without a crash: the result is kept and settled as soon as the session lets go.
subtest 'a session holds the row for a while' => sub {
    my $holder = hold_answer('held-up');
    $holder->query_safe('COMMIT');
    $holder->quit;
    wait_state($node, 'held-up', 'confirmed');
    is(join(' ', map { "$_->{kind}:$_->{verdict}" } attempts($node, 'held-up')), 'send:confirmed', 'by its own answer');
};

# Lock the operation's row while its request is under way, then let the answer come. Another operation of
# the same provider that is confirmed afterwards shows that the worker has turned since, and did not wait.
sub hold_answer
{
    my ($op) = @_;
    $double->script({ match => { op => $op }, do => { delay_after => "gate-$op" } });
    refund($op);
    $double->wait(waiting => 1, op => $op);
    my $holder = $node->background_psql('postgres');
    $holder->query_safe("BEGIN; SELECT op_id FROM op_operation WHERE op_id = '$op' FOR UPDATE");
    $double->release("gate-$op");
    $double->wait(finished => 1, op => $op);
    refund("beside-$op");
    wait_state($node, "beside-$op", 'confirmed', 'others go on meanwhile');
    return $holder;
}

# Twenty in flight, five crashes in a row.
subtest 'orphans are found again' => sub {
    for my $round (1 .. 5)
    {
        my @ops = map { "orphan-$round-$_" } 1 .. 20;
        my $before = $double->effects->{total};
        $double->script(map { { match => { op => $_ }, do => 'hang' } } @ops);
        refund_all(@ops);
        ok($double->wait(effects => $before + @ops), "round $round: all are under way");
        $node->stop('immediate');
        $node->start;
        my $ours = "FROM op_operation WHERE op_id LIKE 'orphan-$round-%' AND state";
        ok(wait_sql($node, "SELECT count(*) = 0 $ours = 'submitted'", "round $round"), "round $round: none stays submitted");
        ok(wait_sql($node, "SELECT count(*) = 20 $ours = 'confirmed'", "round $round"), "round $round: all are confirmed");
    }
    my $twice = grep { $_ > 1 } values %{ $double->effects->{by_op} };
    is($twice, 0, 'each took effect once');
};

sub refund_all
{
    my (@ops) = @_;
    my $list = join ',', map { sql_text($_) } @ops;
    $node->safe_psql('postgres', qq{
        SELECT op_submit(op, 'bank.refund', jsonb_build_object('payment_intent', 'pi_' || op, 'amount', 1)) FROM unnest(ARRAY[$list]) op});
    return;
}

# Every way to try again, one key. This provider remembers keys.
subtest 'no way to try again mints a new key' => sub {
    $double->config(stores => 'all');
    add_provider($node, 'keyed', double => $double);
    my %ways = (
        automatic  => sub { },
        worker     => sub { $node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . worker_pid($node) . ')') },
        postmaster => sub { restart_immediately($node) },
        resubmit   => sub { refund('vanish-resubmit', 'keyed') },
    );
    for my $way (sort keys %ways)
    {
        my $op = "vanish-$way";
        # The effect happens, the answer is lost, and no lookup sees the object: only the key can tell.
        $double->script({ match => { op => $op }, do => { like => 'drop', hide => 'forever' } });
        refund($op, 'keyed');
        $double->wait(finished => 1, kind => 'send', op => $op);
        $ways{$way}->();
        wait_state($node, $op, 'confirmed');
        my %keys = map { $_->{key} => 1 } sends($op);
        is(scalar keys %keys, 1, "$way: one key");
        cmp_ok(scalar sends($op), '>=', 2, "$way: sent again");
        is($double->effects_of($op), 1, "$way: one effect");
    }
};

check_invariants($node, $double, lost_unsent => $lost_unsent);
done_testing();
