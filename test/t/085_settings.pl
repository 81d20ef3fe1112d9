# A setting has the scope that doc/operating.md says, and counts from the next attempt on; what is under
# way keeps what it was sent with.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();
my $node = new_node(name => 'settings');

sub query { return $node->safe_psql('postgres', $_[0]); }

sub refund
{
    my ($op) = @_;
    return submit($node, $op, 'bank.refund', { payment_intent => "pi_$op", amount => 500 });
}

subtest 'scopes' => sub {
    my %other = (enabled => 'off', workers => 2, databases => 'nowhere', secret_dir => '/tmp', failover => 'continue');
    for my $name (sort keys %other)
    {
        is(query("SELECT context FROM pg_settings WHERE name = 'op_ledger.$name'"), 'sighup', "$name: by reload");
        my ($status, undef, $errors) = $node->psql('postgres', "SET op_ledger.$name = '$other{$name}'");
        isnt($status, 0, 'not by SET');
        like($errors, qr/cannot be changed now/, 'which is said');
        ($status, undef, $errors) = $node->psql('postgres', "ALTER DATABASE postgres SET op_ledger.$name = '$other{$name}'");
        isnt($status, 0, 'nor for a database');
    }
    my ($status, undef, $errors) = $node->psql('postgres', q{ALTER SYSTEM SET op_ledger.workers = 99});
    like($errors, qr/outside the valid range/, 'a value that is none is refused');
    ($status, undef, $errors) = $node->psql('postgres', q{ALTER SYSTEM SET op_ledger.worker = 2});
    isnt($status, 0, 'and so is a name that is none');
};

add_provider($node, 'bank', double => $double, spec => { timeout => { total => '2 s' } });

subtest 'the provider, at the next attempt' => sub {
    $double->script({ match => { op => 'under-way' }, do => { delay_answer => 'gate' } });
    refund('under-way');
    $double->wait(waiting => 1);
    query(q{UPDATE op_provider SET spec = jsonb_set(spec, '{timeout,total}', '"30 s"') WHERE name = 'bank'});
    wait_sql($node, q{SELECT count(*) = 1 FROM op_attempt WHERE op_id = 'under-way' AND kind = 'send'}, 'the first to be given up');
    cmp_ok(query(q{SELECT total_us FROM op_attempt WHERE op_id = 'under-way' AND kind = 'send'}), '<', 10_000_000, 'what was under way kept its two seconds');
    $double->release('gate');
    wait_state($node, 'under-way', 'confirmed');

    $double->script({ match => { op => 'after' }, do => { delay_answer => 3 } });
    refund('after');
    wait_state($node, 'after', 'confirmed');
    is(query(q{SELECT string_agg(verdict, ' ') FROM op_attempt WHERE op_id = 'after'}), 'confirmed', 'and the next one waited three');
};

subtest 'secret_dir, by reload' => sub {
    my $elsewhere = PostgreSQL::Test::Utils::tempdir('secrets');
    $elsewhere = POSIX::getcwd() . "/$elsewhere" unless $elsewhere =~ m{^/};
    append_to_file("$elsewhere/test.key", 'sk_of_another_directory');
    chmod 0600, "$elsewhere/test.key";
    query("ALTER SYSTEM SET op_ledger.secret_dir = '$elsewhere'");
    $node->reload;
    wait_sql($node, "SELECT setting = '$elsewhere' FROM pg_settings WHERE name = 'op_ledger.secret_dir'", 'the reload');
    my $n = 0;
    my $seen = '';
    # The worker takes the signal when it can: from some attempt on, not later than the next second.
    for (1 .. 50)
    {
        refund('secret-' . ++$n);
        wait_state($node, "secret-$n", 'confirmed');
        ($seen) = map { to_json($_->{headers}) } $double->requests(kind => 'send', op => "secret-$n");
        last if $seen =~ /sk_of_another_directory/;
    }
    like($seen, qr/sk_of_another_directory/, 'the key is read from there');
};

check_invariants($node, $double);
done_testing();
