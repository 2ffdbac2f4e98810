# A runner of RSpec that writes its results in the Test Anything Protocol.
require "rspec/core"
class TapReport
  RSpec::Core::Formatters.register self, :example_passed, :example_failed, :example_pending, :stop
  def initialize(output) = (@output, @lines = output, [])
  def note(word, example, more = "")
    @lines << "#{word} #{@lines.size + 1} - #{example.full_description.gsub("#", "\\#")}#{more}"
  end
  def example_passed(it) = note("ok", it.example)
  def example_failed(it) = note("not ok", it.example)
  def example_pending(it) = note("ok", it.example, " # SKIP")
  def stop(_) = @output.puts("TAP version 13", "1..#{@lines.size}", *@lines)
end
exit RSpec::Core::Runner.run(["spec", "--format", "TapReport", "--out", ARGV[0]])
