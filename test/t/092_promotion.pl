# A standby is promoted in the middle of a hundred operations: each takes effect once.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant OPERATIONS => 100;

my $double = start_provider();

sub submit_all
{
    my ($cluster, $name) = @_;
    my $n = OPERATIONS;
    $cluster->safe_psql('postgres', qq{
        SELECT count(op_submit('$name-' || i, 'bank.refund', jsonb_build_object('payment_intent', 'pi_' || i, 'amount', i)))
          FROM generate_series(1, $n) AS i});
    return;
}

# A primary and its standby; the provider takes its time before each effect.
sub start_pair
{
    my ($name, $stores, %conf) = @_;
    my $primary = new_node(name => "$name-primary", init => { allows_streaming => 1 }, conf => $conf{primary});
    $double->config(stores => $stores);
    $double->script({ match => { kind => 'send' }, do => { delay_before => 0.2 }, times => 'always' });
    add_provider($primary, 'bank', double => $double,
        spec => { concurrency => 8, key => { stores => $stores, margin => '500 ms' }, timeout => { flight => '2 s' } });
    $primary->backup('base');
    my $standby = PostgreSQL::Test::Cluster->new("$name-standby");
    $standby->init_from_backup($primary, 'base', has_streaming => 1);
    $standby->append_conf('postgresql.conf', "synchronous_standby_names = ''\n" . ($conf{standby} || ''));
    $standby->start;
    $primary->wait_for_catchup($standby);
    return ($primary, $standby);
}

# The primary dies with operations of every kind: done, on the wire, not begun.
sub die_in_the_middle
{
    my ($primary, $standby, $name) = @_;
    submit_all($primary, $name);
    ok($double->wait(effects => 30), 'in the middle');
    $primary->stop('immediate');
    my $effects = $double->effects->{total};
    ok($effects < OPERATIONS, "the primary died after $effects effects");
    $standby->promote;
    return;
}

sub each_took_effect_once
{
    my ($standby, $name) = @_;
    my $n = OPERATIONS;
    $standby->poll_query_until('postgres', "SELECT count(*) = $n FROM op_operation WHERE state = 'confirmed'");
    is($standby->safe_psql('postgres', q{SELECT string_agg(DISTINCT state, ' ') FROM op_operation}), 'confirmed', 'all are confirmed');
    my $by_op = $double->effects->{by_op};
    is(join(' ', grep { $by_op->{"$name-$_"} != 1 } 1 .. OPERATIONS), '', 'one effect each');
    is(scalar keys %$by_op, OPERATIONS, 'and no other');
    return;
}

subtest 'failover = continue: a synchronous standby goes on by itself' => sub {
    my ($primary, $standby) = start_pair('continue', 'all', standby => "op_ledger.failover = continue\n");
    $primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'");
    $primary->reload;
    my (undef, undef, $error) = $standby->psql('postgres', q{SELECT op_adopt('too early')});
    like($error, qr/cannot run on a standby/, 'op_adopt() is refused on a standby');
    die_in_the_middle($primary, $standby, 'continue');
    each_took_effect_once($standby, 'continue');
    is($standby->safe_psql('postgres', 'SELECT count(*) FROM op_operation WHERE adopted'), 0, 'keys still guard');
    is($standby->safe_psql('postgres', q{SELECT count(*) FROM op_event WHERE event = 'adopt' AND actor = 'op_ledger' AND op_id IS NULL}), 1, 'on record once');
    my $log = slurp_file($standby->logfile);
    is(() = $log =~ /op_ledger goes on from here after the promotion/g, 1, 'told once');
    unlike($log, qr/sends nothing/, 'without alarm');
    $standby->restart;
    submit($standby, 'continue-1', 'bank.refund', { payment_intent => 'pi_1', amount => 1 });
    is($standby->safe_psql('postgres', q{SELECT status FROM op_health() WHERE check_name = 'home'}), 'ok', 'at home, also after a restart');
    $standby->stop;
};

$double->reset;

# Here no key helps: what was sent in the lost seconds is found by lookup alone.
subtest 'failover = stop: a person adopts' => sub {
    my ($primary, $standby) = start_pair('stop', 'nothing');
    die_in_the_middle($primary, $standby, 'stop');
    my $sent = () = $double->requests;
    wait_sql($standby, q{SELECT turn_at > started_at + interval '1.5 s' FROM _op_worker()}, 'turns of the new worker');
    is(scalar(() = $double->requests), $sent, 'nothing is sent or asked meanwhile');
    like($standby->safe_psql('postgres', q{SELECT detail FROM op_health() WHERE check_name = 'home'}), qr/was promoted/, 'op_health says why');
    # What the standby never heard of is submitted again, before the adoption: so it is looked up as well.
    submit_all($standby, 'stop');
    my %follows = map { split / / } split /\n/, $standby->safe_psql('postgres', q{SELECT follows || ' ' || operations FROM op_adopt('the primary burnt down')});
    cmp_ok($follows{lookup}, '>', 0, "$follows{lookup} operations are looked up");
    each_took_effect_once($standby, 'stop');
    my $blind = $standby->safe_psql('postgres', q{
        SELECT count(*) FROM op_attempt a JOIN op_control c ON a.started_at > c.adopted_at AND NOT c.retired
         WHERE a.kind = 'send' AND NOT EXISTS (SELECT FROM op_attempt l WHERE l.op_id = a.op_id AND l.n < a.n AND l.verdict = 'absent')});
    is($blind, 0, 'nothing was sent that had not been looked up');
    $standby->stop;
};

$double->reset;

# The standby was cut off before the claim. One operation it knows as pending, one not at all.
subtest 'a standby that was behind' => sub {
    my ($primary, $standby) = start_pair('behind', 'all', standby => "op_ledger.failover = continue\n");
    $primary->safe_psql('postgres', q{SELECT op_provider_pause('bank', 'until the standby is gone')});
    submit($primary, 'known', 'bank.refund', { payment_intent => 'pi_known', amount => 5 });
    $primary->wait_for_catchup($standby);
    $standby->stop;
    $primary->safe_psql('postgres', q{SELECT op_provider_resume('bank')});
    submit($primary, 'unheard', 'bank.refund', { payment_intent => 'pi_unheard', amount => 5 });
    wait_state($primary, $_, 'confirmed') for qw(known unheard);
    $primary->stop('immediate');
    $standby->start;
    $standby->promote;
    wait_sql($standby, q{SELECT count(*) = 1 FROM op_event WHERE event = 'adopt' AND op_id IS NULL}, 'the failover');
    # Resumed there only after the standby was gone: it still has the pause of then.
    $standby->safe_psql('postgres', q{SELECT op_provider_resume('bank')});
    is(submit($standby, 'unheard', 'bank.refund', { payment_intent => 'pi_unheard', amount => 5 }), 'pending', 'the application asks again: nobody knows it');
    wait_state($standby, $_, 'confirmed') for qw(known unheard);
    is_deeply($double->effects->{by_op}, { known => 1, unheard => 1 }, 'one effect each');
    my %keys;
    push @{ $keys{ $_->{op} } }, $_->{key} for $double->requests(kind => 'send');
    is_deeply(\%keys, { known => ['known'], unheard => [ 'unheard', 'unheard' ] }, 'one was found, one sent under the same key');
    $standby->stop;
};

done_testing();
