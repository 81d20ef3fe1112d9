# Five hundred operations against a provider that misbehaves at random, and a server that is stopped at
# once six times, at random moments: five hundred effects, five hundred confirmed.
#
#     CHAOS_SEED=17 prove … test/t/070_chaos.pl      tries the moments of that seed again
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use constant { OPERATIONS => 500, AT_ONCE => 4, CRASHES => 6 };

my $seed = $ENV{CHAOS_SEED} || time;
srand $seed;
diag("seed $seed");

my $node = new_node(name => 'chaos');

# One provider remembers keys; the other does not, so that every blind resend would be a second effect.
my %doubles = map { ($_ => start_provider()) } qw(keyed keyless);
add_provider($node, $_, double => $doubles{$_}, spec => {
    concurrency => 16,
    key         => { ttl => '6 h', stores => $_ eq 'keyed' ? 'all' : 'nothing' },
    timeout     => { connect => '1 s', total => '1500 ms', flight => '2 s' },
    retry       => { attempts => 50, patience => '1 h', base => 1 }, # no back-off to minutes: a test has none
}) for sort keys %doubles;
$doubles{keyless}->config(stores => 'nothing');

sub randomly
{
    my ($kind, $probability, $do) = @_;
    return { match => { kind => $kind, probability => $probability }, do => $do, times => 'always' };
}

# Effects come after 1.7 s at most: within the flight that the provider promises, but after our time-out.
for my $double (values %doubles)
{
    $double->config(seed => $seed % 1_000_000);
    $double->script(
        randomly(send   => 0.08, 'drop'),
        randomly(send   => 0.04, 'reset'),
        randomly(send   => 0.06, 'drop_before'),
        randomly(send   => 0.06, 'effect_then_500'),
        randomly(send   => 0.03, { effect => false, answer => { status => 503 } }),
        randomly(send   => 0.06, { effect => false, answer => { status => 429 } }),
        randomly(send   => 0.10, { delay_before => 0.4 }),
        randomly(send   => 0.10, { delay_after  => 0.4 }),
        randomly(send   => 0.03, { delay_after  => 1.2 }),
        randomly(send   => 0.03, { delay_before => 1.7 }),
        randomly(send   => 1.00, { delay_answer => 0.03 }),
        randomly(lookup => 0.08, 'drop_before'),
        randomly(lookup => 0.08, { answer => { status => 500 } }),
        randomly(lookup => 0.08, { delay_answer => 0.3 }));
}

# An application that submits and, when the server is gone, submits again.
sub submit_all
{
    for (my $first = 1; $first <= OPERATIONS; $first += AT_ONCE)
    {
        my $query = sprintf q{
            SELECT op_submit('op-' || i, CASE i %% 2 WHEN 0 THEN 'keyed' ELSE 'keyless' END || '.refund',
                             jsonb_build_object('payment_intent', 'pi_' || i, 'amount', i))
            FROM generate_series(%d, %d) i}, $first, $first + AT_ONCE - 1;
        my $tries = 300;
        while (!submitted($query))
        {
            return 1 if --$tries == 0;
            sleep 0.1;
        }
    }
    return 0;
}

# A psql that loses its server dies in more than one way.
sub submitted
{
    my ($query) = @_;
    my $status = eval { $node->psql('postgres', $query) };
    return defined $status && $status == 0;
}

# What the child says is nobody's test, and its end is nobody's cleaning up.
sub start_submitting
{
    my $pid = fork;
    die "fork: $!" unless defined $pid;
    return $pid if $pid;
    open STDOUT, '>', '/dev/null';
    open STDERR, '>', '/dev/null';
    POSIX::_exit(eval { submit_all() } // 2);
}

my $child = start_submitting();
my $under_way = 0;
for my $crash (1 .. CRASHES)
{
    sleep(0.3 + rand 1.7);
    $under_way += $node->safe_psql('postgres', q{SELECT count(*) FROM op_operation WHERE state = 'submitted'});
    $node->stop('immediate');
    sleep(rand 0.3);
    $node->start;
}
waitpid $child, 0;
is($?, 0, 'everything was submitted');
cmp_ok($under_way, '>', 0, "operations were under way when the server stopped: $under_way");

wait_count($node, OPERATIONS, q{state = 'confirmed'}, 'all are confirmed');
diag("not ended:\n$_") for grep { $_ ne '' } $node->safe_psql('postgres', q{
    SELECT o.op_id, o.state, o.sealed, t.* FROM op_operation o CROSS JOIN LATERAL op_timeline(o.op_id) t WHERE o.settled_at IS NULL});
is($node->safe_psql('postgres', 'SELECT count(*) FROM op_operation'), OPERATIONS, 'and there are no others');
is($node->safe_psql('postgres', 'SELECT count(*) FROM op_due'), 0, 'nothing is left to do');

my @objects = map { @{ $_->effects->{objects} } } values %doubles;
my (%id_of, %effects);
($id_of{ $_->{metadata}{op_id} } = $_->{id}, $effects{ $_->{metadata}{op_id} }++) for @objects;
is(scalar @objects, OPERATIONS, 'as many effects');
is(scalar keys %effects, OPERATIONS, 'one each');
my %known = map { split /\|/ } split /\n/, $node->safe_psql('postgres', 'SELECT op_id, external_id FROM op_operation');
is(join(' ', grep { ($known{$_} // '') ne $id_of{$_} } sort keys %id_of), '', 'and the ledger knows it');

# Of a lost attempt nobody knows whether it left; of all others it is on record.
my %seen;
my @requests = map { $_->requests(kind => 'send') } values %doubles;
$seen{ $_->{op} }++ for grep { defined $_->{op} } @requests;
my %on_record = map { my ($op, @n) = split /\|/; ($op => \@n) } split /\n/, $node->safe_psql('postgres', q{
    SELECT op_id, count(*) FILTER (WHERE reason IS DISTINCT FROM 'lost' AND verdict <> 'not_sent'), count(*) FILTER (WHERE reason = 'lost')
    FROM op_attempt WHERE kind = 'send' GROUP BY op_id});
my @wrong = grep { $seen{$_} < $on_record{$_}[0] || $seen{$_} > $on_record{$_}[0] + $on_record{$_}[1] } sort keys %seen;
is("@wrong", '', 'no request left that is not on record');

my ($left, $lost) = (0, 0);
($left, $lost) = ($left + $_->[0], $lost + $_->[1]) for values %on_record;
note(sprintf '%d requests, %d attempts lost', scalar @requests, $lost);
check_invariants($node, [ values %doubles ], lost_unsent => $left + $lost - @requests);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|FailedAssertion/, 'no crash of our own');
done_testing();
