# What the README and doc/ say works: their ```sql blocks run one after another on a fresh database, against a
# provider double, and doc/reasons.md explains every reason that the product can put out.
#
# A block that is ```text is a fragment and is not run.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run ();
use OpLedger;
use PostgreSQL::Test::Utils;
use Test::More;

my $root   = "$FindBin::RealBin/../..";
my $double = start_provider();
my $node   = new_node(name => 'readme', extension => 0, secrets => { 'stripe.key' => 'sk_test_not_a_real_secret' });

my $folder = PostgreSQL::Test::Utils::tempdir();

# In the order in which a newcomer reads them; the last one ends with the uninstallation.
my @pages = qw(README.md doc/providers.md doc/reference.md doc/copies.md doc/assumptions.md doc/reasons.md doc/operating.md);

# The blocks of a page: language, text, line.
sub blocks
{
    my ($page) = @_;
    my ($text, @found) = (slurp_file("$root/$page"));
    while ($text =~ /^```(\w*)\n(.*?)^```$/gms)
    {
        push @found, { language => $1, text => $2, line => 1 + (substr($text, 0, $-[0]) =~ tr/\n//) };
    }
    return @found;
}

# Providers that a page adds are the double: nothing leaves this machine.
sub redirect
{
    $node->safe_psql('postgres', sprintf q{
        CREATE FUNCTION to_double() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.base_url := %s;
            RETURN NEW;
        END $$;
        CREATE TRIGGER to_double BEFORE INSERT ON op_provider FOR EACH ROW EXECUTE FUNCTION to_double()}, sql_text($double->url));
}

sub run_block
{
    my ($block) = @_;
    my ($out, $err) = ('', '');
    my $good = IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres') ], '<', \$block->{text}, '>', \$out, '2>', \$err);
    return ($good, $out, $err);
}

# What an operator pastes into a shell.
sub run_in_shell
{
    my ($block) = @_;
    my ($out, $err) = ('', '');
    ok(IPC::Run::run([ 'bash', '-euc', $block->{text} ], '>', \$out, '2>', \$err, init => sub { chdir $folder }), "line $block->{line}: it runs");
    is($err, '', "line $block->{line}: without a complaint");
    return;
}

subtest 'the README is short' => sub {
    cmp_ok(scalar(split /\n/, slurp_file("$root/README.md")), '<=', 150, 'at most 150 lines');
};

# A pattern for what the comment behind the last statement of a block promises: "a | b | …".
sub promised
{
    my ($text) = @_;
    my ($comment) = $text =~ /;\s+-- ([^\n]*\|[^\n]*)\n*\z/ or return undef;
    my $pattern = join '\|', map { /…/ ? '\S+' : quotemeta } map { s/^\s+|\s+$//gr } split /\|/, $comment;
    return qr/^$pattern$/m;
}

my $extension = 0;
local @ENV{qw(PGHOST PGPORT PGDATABASE)} = ($node->host, $node->port, 'postgres');
for my $page (@pages)
{
    subtest $page => sub {
        my @all = blocks($page);
        is_deeply([ map { $_->{line} } grep { $_->{language} !~ /^(sql|text|sh|json)$/ } @all ], [], 'each block says what it is');
        for my $block (grep { $_->{language} eq 'sql' || ($_->{language} eq 'sh' && $page eq 'doc/operating.md') } @all)
        {
            if ($block->{language} eq 'sh')
            {
                run_in_shell($block);
                next;
            }
            # The provider's address is ours from the moment that there is a table of them.
            if (!$extension && $block->{text} =~ s/\A(CREATE EXTENSION op_ledger;[^\n]*\n)//)
            {
                ok((run_block({ text => $1 }))[0], 'the extension');
                redirect();
                $extension = 1;
            }
            my ($good, $out, $err) = run_block($block);
            ok($good, "line $block->{line}: it runs") or diag($err);
            my $pattern = promised($block->{text});
            like($out, $pattern, "line $block->{line}: and answers as it says") if $pattern;
        }
        pass('read');
    };
}
is($double->effects_of('refund-1043-li_2'), 1, 'the first operation had one effect');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_extension WHERE extname = 'op_ledger'}), 0, 'the last page uninstalls');
ok(wait_sql($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'op_ledger worker%'}, 'the worker to leave'), 'and the worker leaves');

subtest 'links lead somewhere' => sub {
    for my $page (@pages, 'CONTRIBUTING.md')
    {
        my $text = slurp_file("$root/$page");
        my ($folder) = $page =~ m{^(.*/)};
        for my $link ($text =~ /\]\(([^)\s]+)\)/g)
        {
            next if $link =~ /^https?:/;
            my ($file, $anchor) = split /#/, $link, 2;
            my $to = $file eq '' ? $page : ($folder || '') . $file;
            ok(-e "$root/$to", "$page: $link") or next;
            next unless defined $anchor;
            my @anchors = map { s/[^\w\s-]//gr =~ s/\s/-/gr } map { lc } slurp_file("$root/$to") =~ /^#+ (.*)$/mg;
            ok((grep { $_ eq $anchor } @anchors), "$page: $link, the section");
        }
    }
};

# Words in the sources stand for reasons: all of the rules and of what judges answers, and elsewhere what is
# put into a reason. Names of states, verdicts, steps and seals are no reasons.
sub reasons_in_sources
{
    my %found;
    my $take = sub { my ($word, $where) = @_; $found{ $word =~ s/%d/NNN/r } = $where };
    for my $file (glob("$root/src/*/*.c"))
    {
        my $source = slurp_file($file);
        $source =~ s{/\*.*?\*/}{}gs;
        $source =~ s{^#include.*$}{}gm;
        $source =~ s{\[\w+\]\s*=\s*"\w+"}{}g;             # tables of names
        $source =~ s{"\n\s*"}{}g;
        $take->($1, $file) while $source =~ /\breason\s*=\s*"(\w+)"/g;
        $take->($1, $file) while $source =~ /\bOPL_ERR_SECRET \? "(\w+)"/g;
        $take->($1, $file) while $source =~ /\? "secret" : "(\w+)"/g;
        if ($file =~ m{/spec/answer\.c$})
        {
            $take->($1, $file) while $source =~ /\bfault\s*=\s*"(\w+)"/g;
        }
        next unless $file =~ m{/rules/(?!state)[^/]*\.c$|/spec/classify[^/]*\.c$};
        $take->($1, $file) while $source =~ /"([a-z][a-z0-9]*(?:_[a-z0-9]+|_%d)*)"/g;
    }
    for my $file (glob("$root/src/profiles/*.json"))
    {
        my $profile = slurp_file($file);
        $take->($1 =~ s/\d{3}$/NNN/r, $file) while $profile =~ /"reason": "(\w+)"/g;
    }
    return %found;
}

subtest 'every reason is explained' => sub {
    my %said   = map { $_ => 1 } slurp_file("$root/doc/reasons.md") =~ /^\| `(\w+)` \|/mg;
    my %source = reasons_in_sources();
    # status_reason() puts these two together.
    delete @source{qw(http redirect true)};
    delete @source{qw(done pending failed)}; # what an object is said to be
    @source{qw(http_NNN redirect_NNN)} = ('classify.c') x 2;
    cmp_ok(scalar keys %source, '>', 50, 'the sources were read');
    is_deeply([ map { "$_ of $source{$_}" } sort grep { !$said{$_} } keys %source ], [], 'none is missing in doc/reasons.md');
    is_deeply([ sort grep { !$source{$_} } keys %said ], [], 'and doc/reasons.md has none that cannot come');
};

subtest 'every check of op_health() is explained' => sub {
    my @checks = slurp_file("$root/src/sql/72_health.sql") =~ /^(?:UNION ALL )?SELECT \* FROM _op_health_(\w+)\(\)$/mg;
    my ($health) = slurp_file("$root/doc/operating.md") =~ /^## Health\n(.*?)^## /ms;
    cmp_ok(scalar @checks, '>', 10, 'the checks were read');
    is_deeply([ $health =~ /^\| `(\w+)` \|/mg ], \@checks, 'in their order');
};

$node->stop;
done_testing();
