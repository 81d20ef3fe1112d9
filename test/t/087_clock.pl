# The wall clock is set, forward and back, by more than everything that the ledger waits for: nothing is
# sent twice for it, nothing waits for as long as the step, and it is said once.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir('clock');
system_or_bail($ENV{CC} || 'cc', '-O1', '-Wall', '-shared', '-fPIC', '-o', "$dir/step.so", "$FindBin::RealBin/../clock/step.c", '-ldl');

my $offset = 0;
set_clock(0);

my $double = start_provider();
my $node = with_clock(sub { new_node(name => 'clock') });

# No window and no patience ends by a step: what keeps a request from being sent again is that it may arrive.
my %patient = (key => { stores => 'nothing', ttl => '100 d' }, retry => { patience => '1 d' });

# Keys are ignored by this provider: only a proof of absence allows a resend. What left takes effect within
# 20 s, far longer than we wait for an answer.
$double->config(stores => 'nothing');
add_provider($node, 'bank', double => $double, spec => { %patient, timeout => { flight => '20 s' } });
add_provider($node, 'quick', double => $double, spec => \%patient);

sub set_clock
{
    my ($by) = @_;
    $offset += int($by * 1_000_000);
    open my $file, (-e "$dir/offset" ? '+<' : '>'), "$dir/offset" or die "$dir/offset: $!";
    syswrite $file, pack('q', $offset);
    close $file;
    return;
}

sub with_clock
{
    my ($code) = @_;
    local $ENV{LD_PRELOAD}      = "$dir/step.so";
    local $ENV{OP_LEDGER_CLOCK} = "$dir/offset";
    return $code->();
}

sub value { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }
sub sends { my ($op) = @_; return scalar sends_of($double, $op); }

sub refund
{
    my ($op, $provider) = @_;
    return submit($node, $op, ($provider || 'bank') . '.refund', { payment_intent => "pi_$op", amount => 500 });
}

# Lookups that found nothing, of those that began since the clock is steady again.
sub absent_since_the_step
{
    my ($op, $n) = @_;
    return wait_sql($node, qq{SELECT count(*) >= $n FROM op_attempt, _op_clock() c
        WHERE op_id = '$op' AND verdict = 'absent' AND started_at BETWEEN c.steady_since AND c.now}, "$n lookups of $op");
}

sub hold
{
    my ($op) = @_;
    $double->script({ match => { kind => 'send', op => $op }, do => { delay_arrival => $op } });
    refund($op);
    $double->wait(requests => 1, op => $op);
    return;
}

sub arrives_once
{
    my ($op) = @_;
    ok(absent_since_the_step($op, 3), "$op: asked three times since, and nothing is there");
    is(sends($op), 1, "$op: not sent again");
    $double->release($op);
    wait_state($node, $op, 'confirmed');
    is($double->effects_of($op), 1, "$op: one effect");
    is(sends($op), 1, "$op: by one request");
    return;
}

subtest 'small steps are no news' => sub {
    my $log = log_position($node);
    for my $by (3, -3, -3, 3)
    {
        set_clock($by);
        refund("small $offset $by", 'quick');
        wait_state($node, "small $offset $by", 'confirmed');
    }
    is(value('SELECT steps FROM _op_clock()'), 0, 'no step was noticed');
    is(complaints($node, $log, 'WARNING|LOG|ERROR'), '', 'and nothing was said');
    is(value(q{SELECT status FROM op_health() WHERE check_name = 'clock'}), 'ok', 'health says so');
};

# Row 1 of the table.
subtest 'half an hour forward while a request is on its way' => sub {
    my $log = log_position($node);
    hold('forward');
    set_clock(1800);
    arrives_once('forward');
    is(() = complaints($node, $log, 'WARNING') =~ /the clock was set forward by (?:1799|1800)\.\d+ s/g, 1, 'the worker said so, once');
    is(value(q{SELECT count(*) FROM op_event WHERE op_id IS NULL AND event = 'clock' AND note LIKE '%forward%'}), 1, 'and recorded it');
    is(value(q{SELECT status || ' ' || (detail LIKE '%forward by 00:%') FROM op_health() WHERE check_name = 'clock'}), 'warning true', 'health says so');
};

# Row 2: new operations of the provider, and the one that was refused.
subtest 'an hour back after a 429 with Retry-After' => sub {
    $double->script({ match => { kind => 'send', op => 'busy' }, do => { effect => false, answer => { status => 429, headers => { 'Retry-After' => '2' } } } });
    refund('busy');
    wait_sql($node, q{SELECT verdict = 'not_processed' FROM op_attempt WHERE op_id = 'busy'}, 'the refusal');
    value(q{SELECT op_submit('at its time', 'bank.refund', '{"payment_intent": "pi_time", "amount": 5}', not_before => clock_timestamp() + interval '10 min')});
    my $due = value(q{SELECT due_at FROM op_due WHERE op_id = 'at its time'});
    set_clock(-3600);
    within(20, 'both are sent', sub {
        refund('after busy');
        wait_state($node, 'after busy', 'confirmed');
        wait_state($node, 'busy', 'confirmed');
    });
    is($double->effects_of($_), 1, "$_: one effect") for 'busy', 'after busy';
    is(value(q{SELECT due_at FROM op_due WHERE op_id = 'at its time'}), $due, 'what is wanted at a time of day stays there');
    value(q{SELECT op_cancel('at its time', 'test')});
    is(value(q{SELECT count(*) FROM op_event WHERE op_id IS NULL AND event = 'clock' AND note LIKE '%back%'}), 1, 'recorded');
};

# Row 3.
subtest 'an hour back after a turn that met a lock' => sub {
    my $session = $node->background_psql('postgres');
    $session->query_safe('BEGIN');
    $session->query_safe('LOCK TABLE op_due IN ACCESS EXCLUSIVE MODE');
    wait_sql($node, q{SELECT turn_at < clock_timestamp() - interval '2 s' FROM _op_worker()}, 'turns that meet the lock');
    set_clock(-3600);
    $session->query_safe('COMMIT');
    refund('after the lock');
    within(20, 'it goes on', sub { wait_state($node, 'after the lock', 'confirmed') });
    $session->quit;
};

# An hour back: what waits for an answer is not waited for an hour longer, nor believed absent too early.
subtest 'an hour back while a request is on its way' => sub {
    hold('back');
    set_clock(-3600);
    arrives_once('back');
};

subtest 'an hour back, and the request never arrives' => sub {
    $double->script({ match => { kind => 'send', op => 'never' }, do => 'drop_before' });
    set_clock(-3600);
    within(30, 'absence is believed when it is proved', sub {
        refund('never', 'quick');
        $double->wait(requests => 1, op => 'never', kind => 'send');
        set_clock(-3600);
        wait_state($node, 'never', 'confirmed');
    });
    is($double->effects_of('never'), 1, 'one effect');
};

# A person says "failed" when nothing can arise any more, by a clock that does not step.
subtest 'a person is refused as long as it is not quiet' => sub {
    hold('by hand');
    wait_state($node, 'by hand', 'unknown');
    set_clock(1800);
    is(sqlstate_of($node, q{SELECT op_resolve('by hand', 'failed', note => 'the clock says so')}), 'OL007', 'not yet');
    ok(value(q{SELECT at > clock_timestamp() FROM op_explain('by hand') WHERE topic = 'quiet'}) eq 't', 'op_explain() says until when');
    arrives_once('by hand');
};

# What the file says then: another boot, by whose steady clock nothing can be measured.
sub boot_another_machine
{
    my $file = $node->data_dir . '/pg_stat/op_ledger.clock';
    my $text = PostgreSQL::Test::Utils::slurp_file($file);
    $text =~ s/^\S+/another-boot/ or die "no boot id: $text";
    open my $fh, '>', $file or die "$file: $!";
    print $fh $text;
    close $fh;
    return;
}

for my $proof ('with', 'without')
{
    subtest "the clock is set while the server is down, $proof a proof" => sub {
        my $forget = sub { boot_another_machine() if $proof eq 'without' };

        hold("down forward $proof");
        $node->stop('immediate');
        set_clock(1800);
        $forget->();
        with_clock(sub { $node->start });
        is(value('SELECT proven FROM _op_clock()'), $proof eq 'with' ? 't' : 'f', 'the server knows whether it knows');
        arrives_once("down forward $proof");

        $double->script({ match => { kind => 'send', op => "down back $proof" },
            do => { effect => false, answer => { status => 429, headers => { 'Retry-After' => '2' } } } });
        refund("down back $proof");
        wait_sql($node, qq{SELECT verdict = 'not_processed' FROM op_attempt WHERE op_id = 'down back $proof'}, 'the refusal');
        $node->stop('immediate');
        set_clock(-3600);
        $forget->();
        with_clock(sub { $node->start });
        within(30, 'sent again soon', sub { wait_state($node, "down back $proof", 'confirmed') });
    };
}

subtest 'a restart alone changes nothing' => sub {
    my $before = value('SELECT steady_since, steps FROM _op_clock()');
    with_clock(sub { $node->restart });
    is(value('SELECT steady_since, steps FROM _op_clock()'), $before, 'the clock is known to be steady');
};

# To one of two workers a step looks as if the other had stood still for as long.
subtest 'half a minute forward with forty on the wires of two workers' => sub {
    my $log = log_position($node);
    $node->append_conf('postgresql.conf', 'op_ledger.workers = 2');
    $node->reload;
    wait_sql($node, q{SELECT count(*) = 2 FROM _op_worker() WHERE state = 'running'}, 'two workers');
    add_provider($node, 'pair', double => $double, spec => { %patient, concurrency => 80, timeout => { connect => '1 s', total => '10 s', flight => '10 s' } });
    $double->script({ match => { kind => 'send', contains => 'pi-many' }, do => { delay_answer => 'many' }, times => 'always' });
    submit_many($node, 'many', 'pair.refund', 40);
    wait_sql($node, q{SELECT count(*) = 40 FROM op_operation WHERE op_id LIKE 'many-%' AND state = 'submitted'}, 'all to be marked');
    $double->wait(waiting => 40);
    set_clock(30);
    wait_sql($node, q{SELECT count(*) > 0 FROM op_event WHERE op_id IS NULL AND event = 'clock' AND note LIKE '%forward by 30.%' OR note LIKE '%forward by 29.%'}, 'the step to be noticed');
    $double->release('many');
    all_ended($node, 'many-', 'confirmed', 40);
    is(scalar(grep { $_->{op} =~ /^many-/ } $double->requests(kind => 'send')), 40, 'each was sent once');
    is(value('SELECT sum(failed_turns) FROM _op_worker()'), 0, 'no turn failed');
    is(value(q{SELECT count(*) FROM op_event WHERE event = 'review'}), 0, 'nobody is blamed');
    wait_sql($node, q{SELECT sum(in_flight) = 0 FROM _op_worker()}, 'every place to be given back');
};

check_invariants($node, $double);
done_testing();
