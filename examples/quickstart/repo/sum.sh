# Prints the sum of all arguments.
total=1
for number; do
  total=$((total + number))
done
echo "$total"
