# A runner of minitest that writes its results in the Test Anything Protocol.
require "minitest"
class TapReport < Minitest::AbstractReporter
  def initialize(path) = (@path, @lines = path, [])
  def record(result)
    word = result.passed? || result.skipped? ? "ok" : "not ok"
    skip = result.skipped? ? " # SKIP" : ""
    @lines << "#{word} #{@lines.size + 1} - #{result.class_name}.#{result.name}#{skip}"
  end
  def report = File.write(@path, ["TAP version 13", "1..#{@lines.size}", *@lines, ""].join("\n"))
end
report = TapReport.new(ARGV.shift)
Minitest.define_singleton_method(:plugin_tap_init) { |_| reporter << report }
Minitest.extensions << "tap"
require "minitest/autorun"
Dir["test/**/{test_*,*_test}.rb"].sort.each { |file| require File.expand_path(file) }
