# A server that runs beside the database under test - the provider double, the dropping proxy, somebody
# else's mock - and the control interface of the first two. README.md of test/provider explains the verbs.
package OpLedger::Server;

use strict;
use warnings FATAL => 'all';

use HTTP::Tiny;
use JSON::PP ();
use MIME::Base64 qw(decode_base64);
use POSIX qw(WNOHANG);
use Test::More;
use Time::HiRes qw(usleep);

my $patience = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 60;
my $json     = JSON::PP->new->utf8->canonical->allow_nonref;
my @servers;

# Environment proxies have no business between a test and its own machine.
my $http = HTTP::Tiny->new(timeout => 120, keep_alive => 0, http_proxy => undef, https_proxy => undef, proxy => undef);

# OpLedger::Server->start('provider', @command): the command prints `listening PORT [TLSPORT]` when ready.
sub start
{
    my ($class, $what, @command) = @_;
    my $pid = open(my $out, '-|', @command) or die "cannot start $what: $!";
    my $self = bless { what => $what, pid => $pid, out => $out }, $class;
    push @servers, $self;
    my $line = _first_line($out);
    die "$what said: " . ($line // 'nothing') . "\n" unless defined $line && $line =~ /^listening (\d+)(?: (\d+))?/;
    @$self{qw(port tls_port)} = ($1, $2);
    note("$what listens on port $1");
    return $self;
}

sub _first_line
{
    my ($out) = @_;
    my $line = eval {
        local $SIG{ALRM} = sub { die "timeout\n" };
        alarm $patience;
        my $read = <$out>;
        alarm 0;
        $read;
    };
    return $line;
}

sub counts_effects { return $_[0]{what} eq 'provider'; }

sub port     { return $_[0]{port}; }
sub tls_port { return $_[0]{tls_port}; }
sub url      { return "http://127.0.0.1:$_[0]{port}"; }
sub tls_url  { return "https://127.0.0.1:$_[0]{tls_port}"; }

# The base URL of a dead end: refused, silent, full.
sub url_of
{
    my ($self, $name, $scheme) = @_;
    return sprintf '%s://127.0.0.1:%d', $scheme || 'http', $self->control(GET => 'ports')->{$name};
}

sub control
{
    my ($self, $method, $verb, $body) = @_;
    my $answer = $http->request($method, $self->url . "/_control/$verb", defined $body ? { content => $json->encode($body) } : {});
    die "$self->{what}: $method $verb: $answer->{content}\n" unless $answer->{success};
    return $json->decode($answer->{content});
}

sub _query
{
    my (%fields) = @_;
    return $http->www_form_urlencode(\%fields);
}

# script({match => {...}, do => {...} or 'preset', times => n}, ...)
sub script       { my ($self, @rules) = @_; return $self->control(POST => 'script', \@rules); }
sub clear_script { my ($self) = @_; return $self->control(POST => 'clear_script'); }
sub config  { my ($self, %settings) = @_; return $self->control(POST => 'config', \%settings); }
sub reset   { my ($self) = @_; return $self->control(POST => 'reset'); }
sub hang_up { my ($self) = @_; return $self->control(POST => 'hang_up'); }
sub release { my ($self, $gate) = @_; return $self->control(POST => 'release', { gate => $gate }); }
sub object  { my ($self, %what) = @_; return $self->control(POST => 'object', \%what); }
sub unused  { my ($self) = @_; return $self->control(GET => 'script'); }
sub open_full { my ($self) = @_; return $self->control(POST => 'open_full'); }
sub connections { my ($self) = @_; return @{ $self->control(GET => 'connections') }; }

# {total, by_op, living, objects}
sub effects { my ($self) = @_; return $self->control(GET => 'effects'); }
sub effects_of { my ($self, $op) = @_; return $self->effects->{by_op}{$op} || 0; }

# Requests as hashes, `body` decoded; requests(kind => 'send', op => 'x')
sub requests
{
    my ($self, %where) = @_;
    my @rows = @{ $self->control(GET => 'log?' . _query(%where)) };
    $_->{body} = decode_base64($_->{body_base64} // '') for @rows;
    return @rows;
}

# wait(requests => 2, effects => 1, kind => 'send'): true once every counter got there
sub wait
{
    my ($self, %wanted) = @_;
    my $answer = $self->control(GET => 'wait?' . _query(timeout => $patience, %wanted));
    diag("$self->{what}: gave up waiting: " . $json->encode($answer)) unless $answer->{ok};
    return $answer->{ok};
}

sub wait_requests { my ($self, $n, %where) = @_; return $self->wait(requests => $n, %where); }

sub stop
{
    my ($self) = @_;
    my $pid = delete $self->{pid} or return;
    kill TERM => $pid;
    for (1 .. 50)
    {
        return if waitpid($pid, WNOHANG) != 0;
        usleep(20_000);
    }
    kill KILL => $pid;
    waitpid $pid, 0;
    return;
}

# A test that is interrupted ends as one that dies: with its END blocks.
$SIG{$_} ||= sub { die "interrupted\n" } for qw(INT TERM);

END
{
    my $status = $?;
    $_->stop for @servers;
    $? = $status;
}

1;
