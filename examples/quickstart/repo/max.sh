# Prints the larger of two numbers.
if [ "$1" -lt "$2" ]; then
  echo "$1"
else
  echo "$2"
fi
