# A certificate authority of a test: it signs what a server should have, and what it should not.
package OpLedger::Authority;

use strict;
use warnings FATAL => 'all';

use POSIX ();
use PostgreSQL::Test::Utils;

my @curve = qw(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes);

sub new
{
    my ($class, $name) = @_;
    my $dir = PostgreSQL::Test::Utils::tempdir('authority');
    $dir = POSIX::getcwd() . "/$dir" unless $dir =~ m{^/};
    my $self = bless { dir => $dir, count => 0 }, $class;
    _openssl(qw(req -x509 -days 2 -subj), "/CN=$name", @curve, '-out', $self->file, '-keyout', "$dir/ca.key");
    return $self;
}

sub file { return "$_[0]{dir}/ca.pem"; }

# (cert => file, key => file) for a server: names => 'IP:127.0.0.1', days => -1 for one that has expired
sub sign
{
    my ($self, %opts) = @_;
    my $base = sprintf '%s/%d', $self->{dir}, ++$self->{count};
    _openssl(qw(req -subj /CN=server), '-addext', "subjectAltName=$opts{names}", @curve, '-out', "$base.csr", '-keyout', "$base.key");
    _openssl(qw(x509 -req -copy_extensions copy -CAcreateserial), '-days', $opts{days} || 2,
        '-CA', $self->file, '-CAkey', "$self->{dir}/ca.key", '-in', "$base.csr", '-out', "$base.pem");
    return (cert => "$base.pem", key => "$base.key");
}

sub _openssl
{
    my (@arguments) = @_;
    PostgreSQL::Test::Utils::system_or_bail('openssl', @arguments);
    return;
}

1;
