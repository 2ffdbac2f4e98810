# Prints the sum of the decimal digits of $1.
rest=$1
sum=0
while [ "$rest" -gt 9 ]; do
  sum=$((sum + rest % 10))
  rest=$((rest / 10))
done
echo "$sum"
