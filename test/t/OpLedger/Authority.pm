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

# (cert => file, key => file) for a server: names => 'IP:127.0.0.1', expired => 1 for one whose time is over
sub sign
{
    my ($self, %opts) = @_;
    my $base = sprintf '%s/%d', $self->{dir}, ++$self->{count};
    my @when = $opts{expired} ? qw(-startdate 20200101000000Z -enddate 20200102000000Z) : qw(-days 2);
    _openssl(qw(req -subj /CN=server), '-addext', "subjectAltName=$opts{names}", @curve, '-out', "$base.csr", '-keyout', "$base.key");
    _openssl(qw(ca -batch -notext -config), $self->_config, @when, '-cert', $self->file, '-keyfile', "$self->{dir}/ca.key",
        '-in', "$base.csr", '-out', "$base.pem");
    return (cert => "$base.pem", key => "$base.key");
}

# What `openssl ca` wants: of all versions, it alone signs for a time that is over.
sub _config
{
    my ($self) = @_;
    my $config = "$self->{dir}/ca.cnf";
    return $config if -e $config;
    append_to_file("$self->{dir}/index.txt", '');
    append_to_file($config, <<"END");
[ca]
default_ca = this
[this]
database = $self->{dir}/index.txt
new_certs_dir = $self->{dir}
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
END
    return $config;
}

sub _openssl
{
    my (@arguments) = @_;
    PostgreSQL::Test::Utils::system_or_bail('openssl', @arguments);
    return;
}

1;
